#include "api/engine_model.h"

#include <filesystem>
#include <utility>

#include "api/llm_state.h"

namespace thalweg::api {
namespace {

constexpr std::string_view kEmbeddedName = "thalweg-nano";

// "deepseek-ai/DeepSeek-V4.1-Flash" and "/models/DeepSeek-V4.1-Flash/" are both served as
// "DeepSeek-V4.1-Flash".
std::string ServedName(const std::string& model) {
  if (model.empty()) return std::string(kEmbeddedName);
  const std::filesystem::path path = std::filesystem::path(model).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

std::string ModelOption(const LLMOptions& options) {
  if (!options.model.empty()) return options.model;
  const auto at = options.options.find("model");
  return at == options.options.end() ? std::string() : at->second;
}

}  // namespace

EngineModel::EngineModel(LLM llm, std::string name)
    : llm_(std::move(llm)), name_(std::move(name)), tokenizer_(llm_.state_->engine->tokenizer()) {}

Expected<std::unique_ptr<EngineModel>> EngineModel::Load(const LLMOptions& options,
                                                         std::string name) {
  Expected<LLM> llm = LLM::Load(options);
  if (!llm.ok()) return llm.error();
  if (name.empty()) name = ServedName(ModelOption(options));
  std::unique_ptr<EngineModel> model(new EngineModel(*std::move(llm), std::move(name)));
  if (model->tokenizer_ == nullptr)
    return Error{ErrorCode::kFailedPrecondition, "a model without tokenizer.json cannot be served"};
  return model;
}

Expected<std::string> EngineModel::Submit(const Prompt& prompt, const SamplingParams& params,
                                          StreamCallback callback, const RequestOptions& options) {
  return llm_.Submit(prompt, params, std::move(callback), options);
}

void EngineModel::CancelOne(const std::string& request_id, int index) {
  llm_.state_->engine->Cancel(request_id, index);
}

}  // namespace thalweg::api
