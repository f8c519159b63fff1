// Byte-level BPE as described by a Hugging Face tokenizer.json (spec/serving.md 2.2, 2.6;
// spec/model.md 2.3).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thalweg::text {

// Whether text that spells an added token (`<｜User｜>`, `<think>`) becomes that token.
enum class Specials {
  kAsText,     // never: every added token, special or not, is ordinary text (user text)
  kRecognise,  // as the Hugging Face library does (prompts that are trusted as a whole)
};

// Read-only after loading; every const method may be called from any number of threads.
//
// The post-processor, truncation and padding sections of the file are not applied: Encode never
// adds a token that the text does not spell (add_special_tokens = false).
class Tokenizer {
 public:
  using Specials = text::Specials;

  // Reads a tokenizer.json. What is malformed or not supported is an error that names the field.
  static Result<Tokenizer> Load(const std::filesystem::path& tokenizer_json);
  static Result<Tokenizer> Parse(std::string_view json);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Largest id + 1, added tokens included; a model's vocabulary may be larger.
  int32_t vocab_size() const;

  // Token ids of `text`. Ill-formed UTF-8 is repaired first (text/utf8.h). Time is linear in the
  // text for any text.
  std::vector<int32_t> Encode(std::string_view text, Specials specials) const;
  // The same, appended to `ids`.
  void EncodeTo(std::string_view text, Specials specials, std::vector<int32_t>& ids) const;

  // The text of `ids` as valid UTF-8. Ids that the tokenizer does not know give no text.
  std::string Decode(std::span<const int32_t> ids, bool skip_specials) const;

  // The bytes that the decoder makes of one token: perhaps a part of a character. Empty for ids
  // that the tokenizer does not know, negative ones included.
  std::string_view TokenBytes(int32_t id) const;

  // The token as it is spelled in the file (id_to_token), empty for unknown ids.
  std::string RawToken(int32_t id) const;

  // Whether id is an added token with "special": true. `<think>` and `｜DSML｜` are added tokens
  // but not special ones in the released file.
  bool IsSpecial(int32_t id) const;
  // Whether id is an added token, special or not.
  bool IsAdded(int32_t id) const;

  // Id of the added token (special or not) that is spelled exactly `content`.
  std::optional<int32_t> IdOfSpecial(std::string_view content) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace thalweg::text
