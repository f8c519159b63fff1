// How the tokens of one sequence are chosen: plain data that crosses the border between control and
// data plane. The order of operations is in docs/sampling.md (spec/decoding.md 4).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace thalweg::step {

struct SamplingParams {
  // Shape of the distribution.
  double temperature = 1;  // in [0, 100]; below 1e-5: greedy
  int64_t top_k = 0;       // <= 0: off
  double top_p = 1;        // in (0, 1]; 1: off
  double min_p = 0;        // in [0, 1]; 0: off
  uint64_t seed = 0;       // of this sequence
  bool seeded = true;      // by the request: its tokens must not depend on drafts

  // History: repetition over prompt and output, the other two over output alone.
  double repetition_penalty = 1;  // in (0, 100]; 1: off
  double frequency_penalty = 0;   // in [-2, 2]
  double presence_penalty = 0;    // in [-2, 2]

  // Single tokens.
  std::vector<std::pair<int32_t, float>> logit_bias = {};  // token, bias in [-100, 100]
  std::vector<int32_t> allowed_tokens = {};                // empty: every token
  std::vector<int32_t> banned_tokens = {};
  std::vector<std::vector<int32_t>> bad_words = {};  // token sequences that never appear

  // Ends. Length and stop strings are not the sampler's business.
  std::vector<int32_t> end_tokens = {};      // the model's own; ignored with ignore_eos
  std::vector<int32_t> stop_token_ids = {};  // the request's
  bool ignore_eos = false;
  int64_t min_tokens = 0;  // until so many are out, end and stop tokens are impossible

  // Reasoning: after `thinking_budget` tokens inside a thinking span, think_end_token is forced.
  int64_t thinking_budget = -1;  // < 0: none
  int32_t think_begin_token = -1;
  int32_t think_end_token = -1;

  // Log-probabilities of the untouched logits: < 0 none, 0 the token alone, N its top N too.
  int32_t logprobs = -1;         // at most kMaxLogprobs
  int32_t prompt_logprobs = -1;  // of every prompt token but the first; needs full replay

  // The control plane holds a grammar for this sequence: its tokens are drawn under masks that the
  // executor is given (exec/token_masks.h).
  bool constrained = false;

  // Name of a custom logits processor that was registered with the executor; empty: none.
  std::string logits_processor = {};
};

inline constexpr int32_t kMaxLogprobs = 20;

}  // namespace thalweg::step
