// All that the sampler must know of one sequence: its parameters, its history, and what follows
// from both. A pure function of parameters and tokens: a state rebuilt from (prompt + generated)
// equals one that has grown by Append, so a preempted sequence goes on as if nothing had happened.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "step/plan.h"
#include "step/sampling_params.h"

namespace thalweg::sampling {

// How often a token came, for penalties.
struct TokenCount {
  int32_t token = 0;
  int32_t output = 0;  // among the generated tokens
};

class SequenceState {
 public:
  // params are valid (Validate) for a vocabulary of `vocab` tokens. tokens: everything known; those
  // behind the first `prompt_tokens` were generated in an earlier life and count as output.
  // Nothing but the history is kept for features that are off.
  SequenceState(step::SamplingParams params, int64_t vocab, std::vector<int32_t> tokens,
                int64_t prompt_tokens);

  // A generated token: what SampleRow answered.
  void Append(int32_t token);

  const step::SamplingParams& params() const { return params_; }
  int64_t vocab() const { return vocab_; }
  std::span<const int32_t> tokens() const { return tokens_; }  // prompt, then output
  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t output_tokens() const { return static_cast<int64_t>(tokens_.size()) - prompt_tokens_; }

  // Distinct tokens that penalties reach: of prompt and output with a repetition penalty, of the
  // output with the other two, none without penalties.
  std::span<const TokenCount> counts() const { return counts_; }
  // The next token must not be an end or stop token.
  bool ends_forbidden() const { return output_tokens() < params_.min_tokens; }
  // The thinking budget is used up: think_end_token comes next, whatever the logits say.
  bool must_end_thinking() const {
    return thinking_ && params_.thinking_budget >= 0 && thought_tokens_ >= params_.thinking_budget;
  }
  // Whether `token`, coming next, ends the sequence.
  step::TokenEnd EndOf(int32_t token) const;
  // Some operation changes logits before the temperature, a processor left aside.
  bool changes_logits() const { return changes_logits_; }

 private:
  void Note(int32_t token, bool output);
  void Count(int32_t token, bool output);

  step::SamplingParams params_;
  int64_t vocab_;
  int64_t prompt_tokens_;
  std::vector<int32_t> tokens_;
  bool changes_logits_ = false;

  std::vector<TokenCount> counts_;
  std::unordered_map<int32_t, size_t> count_index_;  // token -> place in counts_

  bool thinking_ = false;       // behind a think_begin_token that no think_end_token closed
  int64_t thought_tokens_ = 0;  // of that span
};

}  // namespace thalweg::sampling
