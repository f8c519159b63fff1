// The engine as a served model.
#pragma once

#include <memory>
#include <string>

#include "api/served_model.h"

namespace thalweg::api {

class EngineModel final : public ServedModel {
 public:
  // Loads the model. `name`: what requests call it; empty: the last part of the model's own name.
  // A model without a tokenizer cannot be served: an error.
  static Expected<std::unique_ptr<EngineModel>> Load(const LLMOptions& options, std::string name);

  const std::string& name() const override { return name_; }
  int64_t context_tokens() const override { return llm_.context_tokens(); }
  const text::Tokenizer& tokenizer() const override { return *tokenizer_; }
  SamplingParams RecommendedParams() const override { return llm_.RecommendedParams(); }
  Expected<std::string> Submit(const Prompt& prompt, const SamplingParams& params,
                               StreamCallback callback, const RequestOptions& options) override;
  void Cancel(const std::string& request_id) override { llm_.Cancel(request_id); }
  void CancelOne(const std::string& request_id, int index) override;
  int64_t Drain(bool abandon) override { return llm_.Drain(abandon); }
  std::string MetricsJson() const override { return llm_.MetricsJson(); }

 private:
  EngineModel(LLM llm, std::string name);

  LLM llm_;
  std::string name_;
  const text::Tokenizer* tokenizer_;  // of the engine
};

}  // namespace thalweg::api
