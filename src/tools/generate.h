// One sequence from prompt to answer: chunked prefill, then a token a step.
// What `thalweg run` does, and the simplest use of the model that there is.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exec/token_masks.h"
#include "model/model.h"
#include "model/replay.h"
#include "sampling/sampler.h"

namespace thalweg::tools {

struct GenerateOptions {
  step::SamplingParams sampling;
  model::Replay replay;
  int64_t max_new_tokens = 512;
  std::vector<int32_t> end_tokens;
  exec::TokenMasks* masks = nullptr;  // of this answer, which is constrained; null: it is not
  // Called with every new token, end tokens left out; returning false stops.
  std::function<bool(int32_t)> on_token;
  // Asked between chunks of the prompt and between tokens; true stops.
  std::function<bool()> interrupted = {};
};

// kEnd: an end token, or a constraint behind which nothing may come.
enum class FinishReason { kEnd, kLength, kContext, kStopped };
std::string_view FinishReasonName(FinishReason reason);

struct GenerateResult {
  std::vector<int32_t> tokens;  // end token left out
  FinishReason finish = FinishReason::kLength;
  int64_t prompt_tokens = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
  int64_t decode_steps = 0;
  // Digest of all logits that were sampled from: equal digests, equal
  // arithmetic.
  uint64_t logits_digest = 0;
};

// Errors: an empty prompt, a prompt that leaves no room in the context, what
// Model::Step refuses.
Result<GenerateResult> Generate(model::Model& model, std::span<const int32_t> prompt,
                                const GenerateOptions& options);

// Appends `tokens` to a sequence in chunks of the model's row limit; logits of
// the last token.
Status Prefill(model::Model& model, kvpool::SequenceId sequence, std::span<const int32_t> tokens,
               int64_t decoder_from, model::StepOutput* output);

// FNV-1a over the bytes of `values`, continuing from `digest`.
uint64_t DigestFloats(std::span<const float> values, uint64_t digest);
inline constexpr uint64_t kDigestStart = 0xcbf29ce484222325u;

// Opens a sequence and closes it with the scope.
class ScopedSequence {
 public:
  static Result<ScopedSequence> Open(model::Model& model);
  // One that is open already.
  static ScopedSequence Adopt(model::Model& model, kvpool::SequenceId id) { return {&model, id}; }
  ScopedSequence(ScopedSequence&& other) noexcept;
  ScopedSequence& operator=(ScopedSequence&&) = delete;
  ~ScopedSequence();
  kvpool::SequenceId id() const { return id_; }

 private:
  ScopedSequence(model::Model* model, kvpool::SequenceId id) : model_(model), id_(id) {}
  model::Model* model_;
  kvpool::SequenceId id_;
};

}  // namespace thalweg::tools
