#include "server/responses_reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/responses_request.h"
#include "server/sse.h"

namespace thalweg::server {
namespace {

// The text that a custom tool is called with.
std::string CustomInput(const std::string& arguments) {
  const Result<Json> parsed = base::ParseJson(arguments, "arguments");
  if (!parsed.ok() || !parsed->is_object()) return arguments;
  const Json* input = FindField(*parsed, kCustomInput);
  return input != nullptr && input->is_string() ? input->get<std::string>() : arguments;
}

Json ResponsesUsage(const Usage& usage) {
  Json json;
  json["input_tokens"] = usage.prompt;
  json["input_tokens_details"] = Json{{"cached_tokens", usage.cached}};
  json["output_tokens"] = usage.completion;
  json["output_tokens_details"] = Json{{"reasoning_tokens", usage.reasoning}};
  json["total_tokens"] = usage.prompt + usage.completion;
  return json;
}

// "namespace::name" apart.
void SetName(const std::string& full, Json* item) {
  const size_t mark = full.find("::");
  (*item)["name"] = mark == std::string::npos ? full : full.substr(mark + 2);
  if (mark != std::string::npos) (*item)["namespace"] = full.substr(0, mark);
}

}  // namespace

ResponsesReply::ResponsesReply(AnswerHead head, std::string request_id, const ChatPlan& plan,
                               Shape shape, std::vector<text::TokenOutputDecoder> decoders,
                               const text::Tokenizer* tokenizer, Metrics* metrics)
    : ChatReply(std::move(decoders), plan, tokenizer, metrics),
      head_(std::move(head)),
      request_id_(std::move(request_id)),
      shape_(std::move(shape)) {}

void ResponsesReply::Send(std::string_view type, Json event, std::string* out) {
  if (!shape_.stream) return;
  Json json;
  json["type"] = type;
  json["sequence_number"] = number_++;
  json.update(event);
  AppendNamedEvent(type, DumpOneLine(json), out);
}

void ResponsesReply::SendAboutItem(std::string_view type, Json more, std::string* out) {
  Json event;
  event["item_id"] = item_id_;
  event["output_index"] = output_.size();
  event.update(more);
  Send(type, std::move(event), out);
}

void ResponsesReply::SendResponse(std::string_view type, std::string_view status,
                                  std::string* out) {
  if (shape_.stream) Send(type, Json{{"response", ResponseJson(status)}}, out);
}

void ResponsesReply::Begin(std::string* out) {
  SendResponse("response.created", "in_progress", out);
  SendResponse("response.in_progress", "in_progress", out);
}

void ResponsesReply::OnEvents(size_t, const text::OutputEvents& events, std::string* out) {
  for (const text::OutputEvent& event : events)
    std::visit([&](const auto& one) { Write(one, out); }, event);
}

// The path of every token: no JSON document is built.
void ResponsesReply::WriteDelta(std::string_view type, std::string_view text, std::string* out) {
  if (!shape_.stream) return;
  line_.clear();
  fmt::format_to(std::back_inserter(line_),
                 R"({{"type":"{}","sequence_number":{},"item_id":"{}","output_index":{},)", type,
                 number_++, item_id_, output_.size());
  if (item_ != Item::kCall) line_ += R"("content_index":0,)";
  if (item_ == Item::kMessage) line_ += R"("logprobs":[],)";
  line_ += R"("delta":)";
  AppendJsonString(text, &line_);
  line_ += '}';
  AppendNamedEvent(type, line_, out);
}

void ResponsesReply::Write(const text::ReasoningText& event, std::string* out) {
  OpenText(Item::kReasoning, out);
  text_ += event.text;
  WriteDelta("response.reasoning_text.delta", event.text, out);
}

void ResponsesReply::Write(const text::ContentText& event, std::string* out) {
  OpenText(Item::kMessage, out);
  text_ += event.text;
  WriteDelta("response.output_text.delta", event.text, out);
}

void ResponsesReply::OpenText(Item item, std::string* out) {
  if (item_ == item) return;
  CloseItem(out);
  item_ = item;
  text_.clear();
  item_id_ =
      fmt::format("{}_{}_{}", item == Item::kReasoning ? "rs" : "msg", request_id_, output_.size());
  Json added;
  added["output_index"] = output_.size();
  added["item"] = ItemJson("in_progress");
  added["item"]["content"] = Json::array();
  Send("response.output_item.added", std::move(added), out);
  SendAboutItem("response.content_part.added", Json{{"content_index", 0}, {"part", Part()}}, out);
}

void ResponsesReply::Write(const text::CallBegin& event, std::string* out) {
  CloseItem(out);
  item_ = Item::kCall;
  text_.clear();
  call_ = event;
  custom_ = std::ranges::find(shape_.custom_tools, event.name) != shape_.custom_tools.end();
  item_id_ = fmt::format("{}_{}_{}", custom_ ? "ctc" : "fc", request_id_, output_.size());
  Json added;
  added["output_index"] = output_.size();
  added["item"] = ItemJson("in_progress");
  Send("response.output_item.added", std::move(added), out);
}

void ResponsesReply::Write(const text::CallArguments& event, std::string* out) {
  text_ += event.text;
  if (!custom_) WriteDelta("response.function_call_arguments.delta", event.text, out);
}

void ResponsesReply::Write(const text::CallEnd&, std::string* out) { CloseItem(out); }

void ResponsesReply::Write(const text::OutputEnd&, std::string* out) { CloseItem(out); }

Json ResponsesReply::Part() const {
  Json part;
  part["type"] = item_ == Item::kReasoning ? "reasoning_text" : "output_text";
  part["text"] = text_;
  if (item_ == Item::kMessage) {
    part["annotations"] = Json::array();
    part["logprobs"] = Json::array();
  }
  return part;
}

Json ResponsesReply::ItemJson(std::string_view status) const {
  Json item;
  item["id"] = item_id_;
  if (item_ == Item::kReasoning) {
    item["type"] = "reasoning";
    item["summary"] = Json::array();
    item["content"] = Json::array({Part()});
  } else if (item_ == Item::kMessage) {
    item["type"] = "message";
    item["role"] = "assistant";
    item["phase"] = "final_answer";
    item["content"] = Json::array({Part()});
  } else {
    item["type"] = custom_ ? "custom_tool_call" : "function_call";
    item["call_id"] = call_.id;
    SetName(call_.name, &item);
    item[custom_ ? "input" : "arguments"] = custom_ ? CustomInput(text_) : text_;
  }
  item["status"] = status;
  return item;
}

void ResponsesReply::CloseText(std::string* out) {
  const bool message = item_ == Item::kMessage;
  Json done{{"content_index", 0}, {"text", text_}};
  if (message) done["logprobs"] = Json::array();
  SendAboutItem(message ? "response.output_text.done" : "response.reasoning_text.done",
                std::move(done), out);
  SendAboutItem("response.content_part.done", Json{{"content_index", 0}, {"part", Part()}}, out);
}

void ResponsesReply::CloseCall(std::string* out) {
  if (!custom_) {
    SendAboutItem("response.function_call_arguments.done",
                  Json{{"name", call_.name}, {"arguments", text_}}, out);
    return;
  }
  const std::string input = CustomInput(text_);
  SendAboutItem("response.custom_tool_call_input.delta", Json{{"delta", input}}, out);
  SendAboutItem("response.custom_tool_call_input.done", Json{{"input", input}}, out);
}

void ResponsesReply::CloseItem(std::string* out) {
  if (item_ == Item::kNone) return;
  if (item_ == Item::kCall) {
    CloseCall(out);
  } else {
    CloseText(out);
  }
  Json done;
  done["output_index"] = output_.size();
  done["item"] = ItemJson("completed");
  Json item = done["item"];
  Send("response.output_item.done", std::move(done), out);
  output_.push_back(std::move(item));
  item_ = Item::kNone;
}

std::string_view ResponsesReply::EndStatus() const {
  switch (choices().front().answer.end.reason) {
    case text::OutputReason::kStop:
    case text::OutputReason::kToolCalls: return "completed";
    case text::OutputReason::kLength:
    case text::OutputReason::kCancelled:
    case text::OutputReason::kError: return "incomplete";
  }
  return "incomplete";
}

Json ResponsesReply::ResponseJson(std::string_view status) const {
  Json json;
  json["id"] = head_.id;
  json["object"] = "response";
  json["created_at"] = head_.created;
  json["status"] = status;
  json["error"] = error_;
  json["incomplete_details"] = nullptr;
  if (status == "incomplete") {
    const bool length = choices().front().answer.end.reason == text::OutputReason::kLength;
    json["incomplete_details"] = Json{{"reason", length ? "max_output_tokens" : "abort"}};
  }
  json["model"] = head_.model;
  json["output"] = output_;
  json["store"] = false;
  json.update(shape_.echoed);
  json["usage"] = status == "in_progress" ? Json() : ResponsesUsage(usage());
  const std::vector<ToolError>& errors = choices().front().tool_errors;
  if (!errors.empty()) json["tool_errors"] = ToolErrorsJson(errors);
  return json;
}

void ResponsesReply::End(std::string* out) {
  const std::string_view status = EndStatus();
  if (!shape_.stream) {
    *out = DumpOneLine(ResponseJson(status));
    return;
  }
  SendResponse(status == "completed" ? "response.completed" : "response.incomplete", status, out);
}

void ResponsesReply::Fail(const ApiError& error, std::string* out) {
  const std::string code = error.status >= 500 ? "server_error" : "invalid_prompt";
  Json event{{"code", code}, {"message", error.message}, {"param", nullptr}};
  Send("error", std::move(event), out);
  error_ = Json{{"code", code}, {"message", error.message}};
  SendResponse("response.failed", "failed", out);
}

}  // namespace thalweg::server
