// Puts the increments of one request together into the output that its user sees.
#pragma once

#include <thalweg/request_output.h>
#include <thalweg/sampling_params.h>

#include "engine/request.h"
#include "text/tokenizer.h"

namespace thalweg::api {

class Assembler {
 public:
  // `first`: what is known before the first token. `tokenizer` may be null: then tokens of
  // logprobs have no text.
  Assembler(RequestOutput first, const SamplingParams& params, const text::Tokenizer* tokenizer);

  // Takes one increment and returns what to hand out now; null: nothing. The pointer holds until
  // the next call. With kDelta, outputs has the sequence of the increment alone.
  const RequestOutput* Add(const engine::Output& increment);

  const RequestOutput& output() const { return output_; }
  RequestOutput Take() { return std::move(output_); }
  void SetId(const std::string& id) { output_.request_id = id; }

 private:
  CompletionOutput& SequenceOf(int32_t index);
  void AddTokens(const engine::Output& increment, CompletionOutput* sequence);
  void AddPromptLogprobs(const engine::Output& increment);
  void AddEnd(const engine::Output& increment, CompletionOutput* sequence);
  Logprob ToLogprob(const step::TokenLogprob& value) const;
  PositionLogprobs ToPosition(const step::PositionLogprobs& value) const;

  RequestOutput output_;
  OutputKind kind_;
  bool logprobs_;
  int unfinished_;
  std::vector<double> cumulative_;  // [n]
  const text::Tokenizer* tokenizer_;
};

}  // namespace thalweg::api
