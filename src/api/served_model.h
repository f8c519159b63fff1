// What a server needs of a model. Two things are one: the engine (engine_model.h), and answers from
// a script (fake_model.h), with which every case of a protocol runs in milliseconds.
#pragma once

#include <thalweg/llm.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace thalweg::api {

class ServedModel {
 public:
  virtual ~ServedModel() = default;

  // The name that requests and /v1/models know it by.
  virtual const std::string& name() const = 0;
  // Tokens that prompt and answer may have together.
  virtual int64_t context_tokens() const = 0;
  virtual const text::Tokenizer& tokenizer() const = 0;
  // What the checkpoint recommends, for requests that leave it open.
  virtual SamplingParams RecommendedParams() const = 0;

  // The contract of LLM::Submit, Cancel and Drain, of which these are the ways in. `callback` runs
  // on a thread of the model, perhaps before Submit has returned.
  virtual Expected<std::string> Submit(const Prompt& prompt, const SamplingParams& params,
                                       StreamCallback callback, const RequestOptions& options) = 0;
  virtual void Cancel(const std::string& request_id) = 0;
  // Ends one of the n sequences alone.
  virtual void CancelOne(const std::string& request_id, int index) = 0;
  virtual int64_t Drain(bool abandon) = 0;

  // LLM::MetricsJson: counters under the names of the engine.
  virtual std::string MetricsJson() const = 0;
};

}  // namespace thalweg::api
