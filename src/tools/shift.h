// How far approximations move the model's distribution: bounded replay against full prefill, and
// prefix hits with one window of replay against cold runs (spec/decoding.md 2.3, serving.md 5.2).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/replay.h"

namespace thalweg::tools {

// One way to come to the logits behind a prompt.
struct ShiftVariant {
  enum class Kind {
    kReplay,   // a prompt from zero
    kHit,      // a prefix hit with a replay of one window behind it
    kTailOnly  // the last keep tokens as if they were the whole prompt: what replay is not
  };
  std::string name;
  Kind kind = Kind::kReplay;
  model::Replay replay;  // which rows the decoder runs
  std::string against;   // the variant that it is compared with
};

// Full, halo, compact, bounded hits of both, and the tail alone. `keep` as in Replay::Make.
std::vector<ShiftVariant> ShiftVariants(const model::Replay& compact);

// Of one variant, over all positions measured.
struct ShiftFigures {
  int64_t tokens = 0;
  double kl_sum = 0;  // KL(reference || variant), nats
  double kl_max = 0;
  int64_t same_top = 0;  // positions whose most probable token is the same
  double nll = 0;        // of the tokens that follow

  void Add(std::span<const float> reference, std::span<const float> logits, int32_t next);
};

struct ShiftOptions {
  int64_t prompt_tokens = 1024;
  int64_t follow_tokens = 32;  // teacher-forced behind the prompt; logits of each are compared
  int64_t own_tokens = 20;     // of a prompt that a prefix hit does not reach, at least
};

// Logits behind the prompt `ids[0, prompt_tokens)`: of its last token and of the follow_tokens - 1
// after it, [follow_tokens, vocab]. The model has blocks from outside, room for two sequences of
// this length and at least follow_tokens rows.
Result<std::vector<float>> LogitsBehindPrompt(model::Model& model, std::span<const int32_t> ids,
                                              const ShiftVariant& variant,
                                              const ShiftOptions& options);

}  // namespace thalweg::tools
