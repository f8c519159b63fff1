#include "tools/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace thalweg::tools {
namespace {

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Status CheckPrompt(const model::Model& model, std::span<const int32_t> prompt) {
  const int64_t context = model.config().max_position_embeddings;
  if (prompt.empty()) return base::InvalidArgument("the prompt is empty");
  if (static_cast<int64_t>(prompt.size()) >= context) {
    return base::InvalidArgument(
        fmt::format("the prompt has {} tokens, which leaves no room for an "
                    "answer in the context of {}",
                    prompt.size(), context));
  }
  return {};
}

bool Interrupted(const GenerateOptions& options) {
  return options.interrupted && options.interrupted();
}

// Chunks of the model's row limit until the prompt ends or `interrupted` says
// so.
Status PrefillChunks(model::Model& model, kvpool::SequenceId sequence,
                     std::span<const int32_t> tokens, int64_t decoder_from,
                     const std::function<bool()>& interrupted, model::StepOutput* output) {
  const auto limit = static_cast<size_t>(model.options().max_rows);
  while (!tokens.empty() && !(interrupted && interrupted())) {
    const size_t count = std::min(limit, tokens.size());
    const bool last = count == tokens.size();
    const model::Chunk chunk{.sequence = sequence,
                             .tokens = tokens.first(count),
                             .decoder_from = decoder_from,
                             .logits = last ? model::LogitRows::kLast : model::LogitRows::kNone};
    TW_TRY(model.Step({&chunk, 1}, output));
    tokens = tokens.subspan(count);
  }
  return {};
}

// The decode loop: sample, hand out, append.
class Decoder {
 public:
  Decoder(model::Model& model, kvpool::SequenceId sequence, std::span<const int32_t> prompt,
          const GenerateOptions& options, GenerateResult* result)
      : model_(model),
        sequence_(sequence),
        options_(options),
        result_(*result),
        state_(options.sampling, model.config().vocab_size, {prompt.begin(), prompt.end()},
               static_cast<int64_t>(prompt.size())) {}

  Status Run(model::StepOutput* output) {
    while (true) {
      const int64_t position = model_.pool().length(sequence_);
      result_.logits_digest = DigestFloats(output->logits, result_.logits_digest);
      TW_ASSIGN(const sampling::RowSample sample, Sample(output->logits, position));
      if (sample.fulfilled) return Finish(FinishReason::kEnd), Status();
      if (Finished(sample.token, position)) return {};
      state_.Append(sample.token);
      const model::Chunk chunk{.sequence = sequence_, .tokens = {&sample.token, 1}};
      TW_TRY(model_.Step({&chunk, 1}, output));
      ++result_.decode_steps;
    }
  }

 private:
  // The mask of the next token is made while the model runs, where it has a
  // thread of its own.
  Result<sampling::RowSample> Sample(std::span<float> logits, int64_t position) {
    sampling::Row row = {.logits = logits, .state = &state_, .position = position};
    if (options_.masks == nullptr) return sampling::SampleRow(row, &scratch_);
    TW_ASSIGN(const exec::NextTokens next, options_.masks->Wait());
    if (next.mask != nullptr) row.mask.words = *next.mask;
    row.mask.complete = next.complete;
    Result<sampling::RowSample> sample = sampling::SampleRow(row, &scratch_);
    if (sample.ok() && sample->end == step::TokenEnd::kNone && !IsEnd(sample->token))
      options_.masks->Accept({&sample->token, 1});
    return sample;
  }

  bool IsEnd(int32_t token) const {
    const auto& ends = options_.end_tokens;
    return std::find(ends.begin(), ends.end(), token) != ends.end();
  }

  // Records the token and why, if at all, it is the last.
  bool Finished(int32_t token, int64_t position) {
    if (IsEnd(token)) return Finish(FinishReason::kEnd);
    result_.tokens.push_back(token);
    if (options_.on_token && !options_.on_token(token)) return Finish(FinishReason::kStopped);
    if (Interrupted(options_)) return Finish(FinishReason::kStopped);
    if (static_cast<int64_t>(result_.tokens.size()) >= options_.max_new_tokens)
      return Finish(FinishReason::kLength);
    if (position + 1 >= model_.config().max_position_embeddings)
      return Finish(FinishReason::kContext);
    return false;
  }

  bool Finish(FinishReason reason) {
    result_.finish = reason;
    return true;
  }

  model::Model& model_;
  kvpool::SequenceId sequence_;
  const GenerateOptions& options_;
  GenerateResult& result_;
  sampling::SequenceState state_;
  sampling::Scratch scratch_;
};

}  // namespace

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEnd: return "end";
    case FinishReason::kLength: return "length";
    case FinishReason::kContext: return "context";
    case FinishReason::kStopped: return "stopped";
  }
  return "?";
}

uint64_t DigestFloats(std::span<const float> values, uint64_t digest) {
  constexpr uint64_t kPrime = 0x100000001b3u;
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    digest = (digest ^ bits) * kPrime;
  }
  return digest;
}

Result<ScopedSequence> ScopedSequence::Open(model::Model& model) {
  TW_ASSIGN(const kvpool::SequenceId id, model.pool().Open());
  return ScopedSequence(&model, id);
}

ScopedSequence::ScopedSequence(ScopedSequence&& other) noexcept
    : model_(std::exchange(other.model_, nullptr)), id_(other.id_) {}

ScopedSequence::~ScopedSequence() {
  if (model_ != nullptr) model_->pool().Close(id_);
}

Status Prefill(model::Model& model, kvpool::SequenceId sequence, std::span<const int32_t> tokens,
               int64_t decoder_from, model::StepOutput* output) {
  return PrefillChunks(model, sequence, tokens, decoder_from, {}, output);
}

Result<GenerateResult> Generate(model::Model& model, std::span<const int32_t> prompt,
                                const GenerateOptions& options) {
  TW_TRY(CheckPrompt(model, prompt));
  TW_TRY(sampling::Validate(options.sampling, model.config().vocab_size));
  TW_ASSIGN(const ScopedSequence sequence, ScopedSequence::Open(model));
  GenerateResult result;
  result.prompt_tokens = static_cast<int64_t>(prompt.size());
  result.logits_digest = kDigestStart;
  if (options.max_new_tokens <= 0) return result;

  model::StepOutput output;
  const auto begin = std::chrono::steady_clock::now();
  const int64_t decoder_from = options.replay.DecoderFrom(result.prompt_tokens, model.config());
  TW_TRY(PrefillChunks(model, sequence.id(), prompt, decoder_from, options.interrupted, &output));
  result.prefill_seconds = SecondsSince(begin);
  if (Interrupted(options)) {
    result.finish = FinishReason::kStopped;
    return result;
  }
  const auto decode_begin = std::chrono::steady_clock::now();
  TW_TRY(Decoder(model, sequence.id(), prompt, options, &result).Run(&output));
  result.decode_seconds = SecondsSince(decode_begin);
  return result;
}

}  // namespace thalweg::tools
