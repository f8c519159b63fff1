#include "text/test_prompt_reader.h"

#include <charconv>
#include <map>

#include "text/python_json.h"

namespace thalweg::text {
namespace {

using base::Json;

const std::map<std::string, std::string> kLetters = {{"<｜begin▁of▁sentence｜>",
                                                      "\x01"
                                                      "B"},
                                                     {"<｜end▁of▁sentence｜>",
                                                      "\x01"
                                                      "E"},
                                                     {"<｜System｜>",
                                                      "\x01"
                                                      "S"},
                                                     {"<｜User｜>",
                                                      "\x01"
                                                      "U"},
                                                     {"<｜Assistant｜>",
                                                      "\x01"
                                                      "A"},
                                                     {"<｜latest_reminder｜>",
                                                      "\x01"
                                                      "L"},
                                                     {"<think>",
                                                      "\x01"
                                                      "T"},
                                                     {"</think>",
                                                      "\x01"
                                                      "F"},
                                                     {"｜DSML｜",
                                                      "\x01"
                                                      "D"}};

constexpr std::string_view kToolsHead = "\n\n## Tools\n\n";
constexpr std::string_view kSchemasHead = "### Available Tool Schemas\n\n";
constexpr std::string_view kSchemasEnd =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool "
    "calls.\n";
constexpr std::string_view kFormatHead =
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

}  // namespace

PromptReader::PromptReader(const Tokenizer& tokenizer, std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    if (piece.is_special()) {
      spelled_ += kLetters.at(tokenizer.RawToken(piece.id()));
    } else {
      spelled_ += piece.text();
    }
  }
}

void PromptReader::Fail(std::string_view what) {
  if (out_.error.empty()) out_.error = what;
}

bool PromptReader::Take(std::string_view text, std::string_view* from) {
  const bool there = from->starts_with(text);
  if (there) {
    from->remove_prefix(text.size());
  } else {
    Fail("expected " + std::string(text) + " at " + std::string(from->substr(0, 40)));
  }
  return there;
}

std::string_view PromptReader::TakeUntil(std::string_view end, std::string_view* from) {
  const size_t at = from->find(end);
  if (at == std::string_view::npos) {
    Fail("no " + std::string(end));
    return {};
  }
  const std::string_view text = from->substr(0, at);
  from->remove_prefix(at + end.size());
  return text;
}

ReadPrompt PromptReader::Read() {
  std::string_view rest = spelled_;
  Take(
      "\x01"
      "B",
      &rest);
  while (!rest.empty() && out_.error.empty()) {
    if (!Take("\x01", &rest)) break;
    const char role = rest.front();
    rest.remove_prefix(1);
    size_t end = 0;
    while (end < rest.size() &&
           !(rest[end] == '\x01' &&
             std::string_view("SUAL").find(rest[end + 1]) != std::string_view::npos))
      ++end;
    ReadTurn(role, rest.substr(0, end));
    rest.remove_prefix(end);
  }
  return std::move(out_);
}

void PromptReader::ReadTurn(char role, std::string_view body) {
  switch (role) {
    case 'S': return ReadSystem(body);
    case 'U': return ReadUserSide(body);
    case 'A': return ReadAssistant(body);
    case 'L':
      out_.conversation.messages.push_back(
          {.role = Role::kLatestReminder, .content = std::string(body)});
      return;
    default: Fail("a mark that begins no turn");
  }
}

void PromptReader::ReadSystem(std::string_view body) {
  Conversation& c = out_.conversation;
  const bool first = c.messages.empty();
  constexpr std::string_view kEffort = "Reasoning Effort: ";
  if (first && body.starts_with(kEffort)) {
    body.remove_prefix(kEffort.size());
    const std::string_view number = TakeUntil(" ", &body);
    std::from_chars(number.data(), number.data() + number.size(), out_.effort);
    TakeUntil("reasoning)\n\n", &body);
  }
  if (const size_t at = body.find(kFormatHead); at != std::string_view::npos) {
    c.response_format = base::ParseJson(body.substr(at + kFormatHead.size()), "format").value();
    body = body.substr(0, at);
  }
  ChatMessage message{.role = Role::kSystem};
  if (const size_t at = body.find(kToolsHead); at != std::string_view::npos) {
    std::string_view block = body.substr(at);
    TakeUntil(kSchemasHead, &block);
    (first ? c.tools : message.tools) = ReadTools(TakeUntil(kSchemasEnd, &block));
    if (!block.empty()) Fail("text behind the tools");
    body = body.substr(0, at);
  }
  message.content = std::string(body);
  c.messages.push_back(std::move(message));
}

std::vector<ToolDefinition> PromptReader::ReadTools(std::string_view schemas) {
  std::vector<ToolDefinition> tools;
  const std::string lines = std::string(schemas) + "\n";
  std::string_view rest = lines;
  while (!rest.empty() && out_.error.empty()) {
    const Json schema = base::ParseJson(TakeUntil("\n", &rest), "schema").value();
    tools.push_back({.name = schema["name"].get<std::string>(),
                     .description = schema["description"].get<std::string>(),
                     .parameters = schema["parameters"]});
  }
  return tools;
}

void PromptReader::ReadUserSide(std::string_view body) {
  const std::string parts = std::string(body) + "\n\n";
  std::string_view rest = parts;
  while (!rest.empty() && out_.error.empty()) {
    std::string_view part = TakeUntil("\n\n", &rest);
    ChatMessage message;
    if (part.starts_with("<tool_result>")) {
      message.role = Role::kTool;
      Take("<tool_result>", &part);
      part = TakeUntil("</tool_result>", &part);
    }
    message.content = std::string(part);
    out_.conversation.messages.push_back(std::move(message));
  }
}

void PromptReader::ReadAssistant(std::string_view body) {
  if (body ==
          "\x01"
          "T" ||
      body ==
          "\x01"
          "F")
    return;  // of the answer to come
  ChatMessage message{.role = Role::kAssistant};
  if (body.starts_with("\x01"
                       "T")) {
    Take(
        "\x01"
        "T",
        &body);
    message.reasoning = TakeUntil(
        "\x01"
        "F",
        &body);
  } else {
    Take(
        "\x01"
        "F",
        &body);
  }
  std::string_view turn = TakeUntil(
      "\x01"
      "E",
      &body);
  if (!body.empty()) Fail("text behind the end of a turn");
  const size_t calls = turn.find(
      "\n\n<\x01"
      "D calls>\n");
  message.content = std::string(turn.substr(0, calls));
  if (calls != std::string_view::npos) ReadCalls(turn.substr(calls), &message);
  out_.conversation.messages.push_back(std::move(message));
}

void PromptReader::ReadCalls(std::string_view block, ChatMessage* message) {
  Take(
      "\n\n<\x01"
      "D calls>\n",
      &block);
  while (block !=
             "</\x01"
             "D calls>" &&
         out_.error.empty()) {
    ToolCall call;
    Take(
        "<\x01"
        "D invoke name=\"",
        &block);
    call.name = TakeUntil("\">\n", &block);
    ReadArguments(&block, &call);
    message->tool_calls.push_back(std::move(call));
  }
}

void PromptReader::ReadArguments(std::string_view* block, ToolCall* call) {
  Json arguments = Json::object();
  if (block->starts_with("\n")) block->remove_prefix(1);
  while (!block->starts_with("</\x01"
                             "D invoke>\n") &&
         out_.error.empty()) {
    Take(
        "<\x01"
        "D parameter name=\"",
        block);
    const std::string name(TakeUntil("\" string=\"", block));
    const bool is_string = TakeUntil("\">", block) == "true";
    const std::string value(
        TakeUntil("</\x01"
                  "D parameter>\n",
                  block));
    arguments[name] = is_string ? Json(value) : base::ParseJson(value, "value").value();
  }
  Take(
      "</\x01"
      "D invoke>\n",
      block);
  call->arguments = PythonJson(arguments);
}

}  // namespace thalweg::text
