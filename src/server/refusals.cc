#include "server/refusals.h"

#include <fmt/format.h>

#include <span>
#include <string_view>

namespace thalweg::server {
namespace {

using base::Json;

struct Refusal {
  std::string_view name;
  std::string_view neutral;  // as JSON: the value that asks for nothing; empty: there is none
  std::string_view why;
};

constexpr std::string_view kOneText = "this server reads and writes text";
constexpr std::string_view kNoTools = "this server runs no tools; declare functions in tools";
constexpr std::string_view kKeepsNothing =
    "this server keeps nothing between requests; send the whole conversation";

// Those of vLLM and SGLang that say what is sampled or returned.
constexpr Refusal kOfEngines[] = {
    {"use_beam_search", "false", "sampling is all there is; leave it out"},
    {"truncate_prompt_tokens", "-1", "prompts are taken whole; shorten it yourself"},
    {"logits_processors", "", "code of clients is not run; use logit_bias"},
    {"custom_logit_processor", "", "code of clients is not run; use logit_bias"},
    {"lora_path", "", "one set of weights is served"},
    {"return_token_ids", "false", "ids are not returned; /tokenize gives those of a text"},
    {"return_tokens_as_token_ids", "false", "tokens are returned as text"},
    {"prompt_logprobs", "", "use /v1/completions with echo and logprobs"},
    {"prompt_embeds", "", "prompts are text or token ids"},
};

constexpr Refusal kOfChat[] = {
    {"functions", "", "is the name of before; use tools"},
    {"function_call", R"("none")", "is the name of before; use tool_choice"},
    {"modalities", R"(["text"])", kOneText},
    {"audio", "", kOneText},
    {"web_search_options", "", kNoTools},
    {"documents", "", "put their text into a message"},
    {"chat_template", "", "the model has one format; /render shows a prompt"},
    {"echo", "false", "use /v1/completions, or prefix of the last message"},
    {"add_special_tokens", "false", "the format of chats has its own"},
    {"skip_special_tokens", "true", "special tokens are read, never part of a chat's text"},
    {"include_reasoning", "true", "reasoning is a part of the answer; turn thinking off"},
    {"separate_reasoning", "true", "reasoning has a field of its own"},
};

constexpr Refusal kOfMessages[] = {
    {"container", "", kNoTools},
    {"mcp_servers", "", kNoTools},
};

constexpr Refusal kOfResponses[] = {
    {"previous_response_id", "", kKeepsNothing},
    {"conversation", "", kKeepsNothing},
    {"prompt", "", "templates are not kept here; send instructions and input"},
    {"background", "false", "this server keeps no responses; wait for this one"},
    {"truncation", R"("disabled")", "nothing is left out of a conversation; shorten it yourself"},
    {"context_management", "", "nothing is left out of a conversation; shorten it yourself"},
};

// Empty lists and texts ask for nothing.
bool AsksForNothing(const Json& value, const Refusal& refusal) {
  if (value.is_null() || (value.is_structured() && value.empty())) return true;
  if (value.is_string() && value.get_ref<const std::string&>().empty()) return true;
  return !refusal.neutral.empty() && value == Json::parse(refusal.neutral);
}

Status Refuse(const Json& body, std::span<const Refusal> refusals) {
  for (const Refusal& refusal : refusals) {
    const auto at = body.find(refusal.name);
    if (at == body.end() || AsksForNothing(*at, refusal)) continue;
    return base::Unsupported(fmt::format("{}: {}", refusal.name, refusal.why));
  }
  return {};
}

// Clearing of earlier reasoning may be told to keep all of it, which is what happens here.
bool KeepsAll(const Json& edit) {
  if (!edit.is_object()) return false;
  const Json type = edit.value("type", Json());
  const bool thinking =
      type.is_string() && type.get_ref<const std::string&>().starts_with("clear_thinking");
  return thinking && edit.value("keep", Json()) == "all";
}

Status CheckContextManagement(const Json& body) {
  const auto at = body.find("context_management");
  if (at == body.end() || !at->is_object()) return {};
  const Json edits = at->value("edits", Json::array());
  for (const Json& edit : edits) {
    if (!KeepsAll(edit)) {
      return base::Unsupported(
          "context_management: nothing is left out of a conversation; shorten it yourself");
    }
  }
  return {};
}

// Of what can be included, log-probabilities alone would be part of the text.
Status CheckInclude(const Json& body) {
  const auto at = body.find("include");
  if (at == body.end() || !at->is_array()) return {};
  for (const Json& one : *at) {
    if (one == "message.output_text.logprobs")
      return base::Unsupported("include: log-probabilities are returned by /v1/chat/completions");
  }
  return {};
}

}  // namespace

Status RefuseChatFields(const Json& body) {
  TW_TRY(Refuse(body, kOfChat));
  return Refuse(body, kOfEngines);
}

Status RefuseCompletionFields(const Json& body) { return Refuse(body, kOfEngines); }

Status RefuseMessagesFields(const Json& body) {
  TW_TRY(Refuse(body, kOfMessages));
  TW_TRY(Refuse(body, kOfEngines));
  return CheckContextManagement(body);
}

Status RefuseResponsesFields(const Json& body) {
  TW_TRY(Refuse(body, kOfResponses));
  TW_TRY(Refuse(body, kOfEngines));
  return CheckInclude(body);
}

}  // namespace thalweg::server
