// Writing and reading of plain values, and the order of fields, which both share.
#pragma once

#include <bit>
#include <concepts>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status.h"
#include "step/plan.h"

namespace thalweg::step {

static_assert(std::endian::native == std::endian::little, "messages are little-endian words");

template <typename T>
concept Word = (std::integral<T> || std::floating_point<T>)&&!std::same_as<T, bool>;

class Writer {
 public:
  explicit Writer(std::string* bytes) : bytes_(bytes) {}

  template <typename... T>
  void operator()(const T&... values) {
    (Put(values), ...);
  }

 private:
  template <Word T>
  void Put(T value) {
    bytes_->append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Put(bool value) { bytes_->push_back(value ? 1 : 0); }
  template <typename T>
  requires std::is_enum_v<T>
  void Put(T value) { Put(static_cast<uint8_t>(value)); }
  void Put(const std::string& text) {
    Put(static_cast<uint32_t>(text.size()));
    bytes_->append(text);
  }
  void Put(const Status& status) { (*this)(status.code(), status.message()); }
  template <typename A, typename B>
  void Put(const std::pair<A, B>& pair) {
    (*this)(pair.first, pair.second);
  }
  template <typename T>
  void Put(const std::vector<T>& list) {
    Put(static_cast<uint32_t>(list.size()));
    for (const T& element : list) Put(element);
  }
  template <typename T>
  requires std::is_class_v<T>
  void Put(const T& value) { Fields(*this, value); }

  std::string* bytes_;
};

// The last value that each enumeration may have.
template <typename T>
inline constexpr T kLast = T{};
template <>
inline constexpr TokenEnd kLast<TokenEnd> = TokenEnd::kStopToken;
template <>
inline constexpr base::Code kLast<base::Code> = base::Code::kInternal;

// After the first error everything reads as nothing, and the error stays.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  template <typename... T>
  void operator()(T&... values) {
    (Get(values), ...);
  }
  // The first error, or that bytes are left over.
  Status Finish() const;

 private:
  template <Word T>
  void Get(T& value) {
    const std::string_view bytes = Take(sizeof(T));
    if (bytes.size() == sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
  }
  void Get(bool& value);
  template <typename T>
  requires std::is_enum_v<T>
  void Get(T& value) {
    uint8_t raw = 0;
    Get(raw);
    if (raw > static_cast<uint8_t>(kLast<T>)) return Fail("a value that its kind does not have");
    value = static_cast<T>(raw);
  }
  void Get(std::string& text);
  void Get(Status& status);
  template <typename A, typename B>
  void Get(std::pair<A, B>& pair) {
    (*this)(pair.first, pair.second);
  }
  // An element takes a byte at least: a length beyond the bytes that are left is a lie. Elements
  // are added one by one, so that memory follows what was really read.
  template <typename T>
  void Get(std::vector<T>& list) {
    list.clear();
    const size_t count = Length();
    for (size_t i = 0; i < count && ok(); ++i) Get(list.emplace_back());
  }
  template <typename T>
  requires std::is_class_v<T>
  void Get(T& value) { Fields(*this, value); }

  bool ok() const { return error_.empty(); }
  size_t Length();
  std::string_view Take(size_t bytes);
  void Fail(std::string_view what);

  std::string_view left_;
  std::string_view error_;
};

template <typename A, typename T>
concept Of = std::same_as<std::remove_const_t<A>, T>;

void Fields(auto& ar, Of<SamplingParams> auto& v) {
  ar(v.temperature, v.top_k, v.top_p, v.min_p, v.seed, v.seeded);
  ar(v.repetition_penalty, v.frequency_penalty, v.presence_penalty);
  ar(v.logit_bias, v.allowed_tokens, v.banned_tokens, v.bad_words);
  ar(v.end_tokens, v.stop_token_ids, v.ignore_eos, v.min_tokens);
  ar(v.thinking_budget, v.think_begin_token, v.think_end_token);
  ar(v.logprobs, v.prompt_logprobs, v.constrained, v.logits_processor);
}

void Fields(auto& ar, Of<SequenceStart> auto& v) {
  ar(v.slot, v.sequence, v.tokens, v.prompt_tokens, v.end_tokens, v.sampling);
  ar(v.start, v.restore_checkpoint, v.encoder_floor, v.decoder_floor, v.decoder_from);
  ar(v.write_from);
}

void Fields(auto& ar, Of<SequenceRows> auto& v) {
  ar(v.slot, v.sequence, v.start, v.count, v.known_tokens, v.sample, v.save_checkpoint);
  ar(v.save_at, v.new_blocks_begin, v.new_blocks_count);
}

void Fields(auto& ar, Of<StepPlan> auto& v) { ar(v.number, v.closes, v.starts, v.rows, v.blocks); }

void Fields(auto& ar, Of<TokenLogprob> auto& v) { ar(v.token, v.logprob, v.rank); }

void Fields(auto& ar, Of<PositionLogprobs> auto& v) { ar(v.chosen, v.top); }

void Fields(auto& ar, Of<SampledToken> auto& v) { ar(v.token, v.end, v.forced, v.logprobs); }

void Fields(auto& ar, Of<SequenceResult> auto& v) {
  ar(v.slot, v.sequence, v.tokens_begin, v.tokens_count, v.drafted, v.fulfilled, v.saved,
     v.prompt_logprobs);
  ar(v.status);
}

void Fields(auto& ar, Of<StepResult> auto& v) {
  ar(v.number, v.status, v.sequences, v.tokens, v.execute_seconds);
}

}  // namespace thalweg::step
