#include <fmt/format.h>
#include <thalweg/llm.h>
#include <thalweg/version.h>

#include <utility>

#include "api/assembler.h"
#include "api/errors.h"
#include "api/llm_state.h"
#include "api/options.h"
#include "api/prompts.h"
#include "api/request_json.h"

namespace thalweg {

const char* Version() { return THALWEG_VERSION; }

Result<std::string> LLM::State::Submit(const Prompt& prompt, const SamplingParams& params,
                                       const RequestOptions& options, StreamCallback callback) {
  const text::Tokenizer* tokenizer = engine->tokenizer();
  TW_ASSIGN(api::PreparedRequest prepared, api::PrepareRequest(tokenizer, prompt, params, options));
  if (params.n < 1 || params.n > engine::kMaxSequencesPerRequest) {
    return base::InvalidArgument(
        fmt::format("n is {}, but must lie in [1, {}]", params.n, engine::kMaxSequencesPerRequest));
  }
  // Chosen here: outputs may come before Submit returns.
  if (prepared.request.id.empty())
    prepared.request.id = fmt::format("thalweg-{}", next_id.fetch_add(1));
  prepared.output.request_id = prepared.request.id;
  auto assembler = std::make_shared<api::Assembler>(std::move(prepared.output), params, tokenizer);
  return engine->Submit(std::move(prepared.request),
                        [assembler, callback = std::move(callback)](const engine::Output& part) {
                          const RequestOutput* output = assembler->Add(part);
                          if (output != nullptr) callback(*output);
                        });
}

Expected<LLM> LLM::Load(const LLMOptions& options) {
  TW_API_ASSIGN(const engine::EngineOptions engine_options, api::ResolveOptions(options));
  TW_API_ASSIGN(std::shared_ptr<engine::Engine> engine,
                engine::Engine::Load(engine_options, options.interrupted));
  auto state = std::make_unique<State>();
  state->engine = std::move(engine);
  return LLM(std::move(state));
}

std::vector<OptionInfo> LLM::Options() { return api::DescribeOptions(); }

LLM::LLM(std::unique_ptr<State> state) : state_(std::move(state)) {}
LLM::LLM(LLM&&) noexcept = default;
LLM& LLM::operator=(LLM&&) noexcept = default;
LLM::~LLM() = default;

Expected<std::string> LLM::Submit(const Prompt& prompt, const SamplingParams& params,
                                  StreamCallback callback, const RequestOptions& options) {
  if (!callback)
    return Error{ErrorCode::kInvalidArgument, "Submit needs a callback for the outputs"};
  TW_API_ASSIGN(std::string id, state_->Submit(prompt, params, options, std::move(callback)));
  return id;
}

void LLM::Cancel(const std::string& request_id) { state_->engine->Cancel(request_id); }

int64_t LLM::Drain(bool abandon) { return state_->engine->Drain(abandon); }

SamplingParams LLM::RecommendedParams() const {
  const checkpoint::GenerationDefaults& defaults = state_->engine->generation_defaults();
  SamplingParams params;
  params.temperature = defaults.do_sample ? defaults.temperature : 0;
  params.top_p = defaults.top_p;
  params.top_k = defaults.top_k;
  params.min_p = defaults.min_p;
  params.repetition_penalty = defaults.repetition_penalty;
  return params;
}

std::string LLM::MetricsJson() const { return engine::ToJson(state_->engine->metrics()); }

int64_t LLM::context_tokens() const { return state_->engine->context_tokens(); }

std::vector<int32_t> LLM::Encode(std::string_view text, const RequestOptions& options) const {
  return api::EncodeText(*state_->engine->tokenizer(), text, options);
}

Expected<Conversation> ConversationFromJson(std::string_view json) {
  TW_API_ASSIGN(Conversation conversation, api::ConversationFromText(json));
  return conversation;
}

Expected<std::vector<int32_t>> LLM::EncodeChat(const Conversation& conversation) const {
  TW_API_ASSIGN(std::vector<int32_t> ids,
                api::EncodeConversation(*state_->engine->tokenizer(), conversation));
  return ids;
}

std::string LLM::Decode(std::span<const int32_t> token_ids, bool skip_special_tokens) const {
  return state_->engine->tokenizer()->Decode(token_ids, skip_special_tokens);
}

}  // namespace thalweg
