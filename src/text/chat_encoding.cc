#include "text/chat_encoding.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/chat_marks.h"
#include "text/chat_order.h"
#include "text/prompt_writer.h"
#include "text/python_json.h"
#include "text/tool_text.h"

namespace thalweg::text {
namespace {

using Start = OutputDecoderOptions::Start;

constexpr std::string_view kResponseFormat =
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

bool IsUserSide(const ChatMessage& message) {
  return message.role == Role::kUser || message.role == Role::kTool;
}

// Numbers of rules are those of spec/serving.md 2.3; D1 and the like, of 2.9.
class Renderer {
 public:
  Renderer(const ChatMarks& marks, const Conversation& conversation, const ChatOptions& options)
      : conversation_(conversation),
        options_(options),
        messages_(OrderMessages(conversation.messages)),
        writer_(marks) {
    first_.content = "";
    const bool needs_first = !ShownTools().empty() || !conversation.response_format.is_null();
    if (needs_first && messages_[0]->role != Role::kSystem)
      messages_.insert(messages_.begin(), &first_);
    keeps_thoughts_from_ = KeepsThoughtsFrom();
  }

  RenderedChat Render() {
    writer_.Mark(marks().bos);
    Opening();
    for (size_t i = 0; i < messages_.size(); ++i) Message(i);
    Ending();
    return {.pieces = writer_.TakePieces(), .images = writer_.TakeImages(), .start = start_};
  }

 private:
  const ChatMarks& marks() const { return writer_.marks(); }

  std::span<const ToolDefinition> ShownTools() const {
    if (conversation_.tool_choice == ToolChoice::kNone) return {};
    return conversation_.tools;
  }

  bool HasTools() const {
    const auto local = [](const ChatMessage& message) { return !message.tools.empty(); };
    return !conversation_.tools.empty() || std::ranges::any_of(conversation_.messages, local);
  }

  // D1: index of the first message whose reasoning is kept.
  size_t KeepsThoughtsFrom() const {
    if (!options_.drop_thinking || HasTools()) return 0;
    for (size_t i = messages_.size(); i-- > 1;) {
      if (IsUserSide(*messages_[i]) || messages_[i]->role == Role::kSystem) return i;
    }
    return 0;
  }

  // Whether an answer at place i of the conversation has a reasoning (rule 7).
  bool Thinks(size_t i) const { return options_.thinking && i > 0 && i >= keeps_thoughts_from_; }

  // Rule 2: the system mark of message 0, which thinking needs even without a system text.
  void Opening() {
    if (messages_[0]->role == Role::kSystem || options_.thinking) writer_.Mark(marks().system);
    if (!options_.thinking) return;
    writer_.Own(
        fmt::format("Reasoning Effort: {} (range {}-{}, the higher the value, the more thorough "
                    "the reasoning)\n\n",
                    options_.effort, kMinEffort, kMaxEffort));
  }

  void Message(size_t i) {
    const ChatMessage& message = *messages_[i];
    switch (message.role) {
      case Role::kSystem: System(i); break;
      case Role::kUser:
      case Role::kTool: UserSide(i); break;
      case Role::kLatestReminder:
        writer_.Mark(marks().reminder);
        writer_.Content(message.content);
        break;
      case Role::kAssistant: Assistant(i); break;
    }
    OpenBeforeReminder(i);
  }

  // Rules 3 and 10.
  void System(size_t i) {
    if (i > 0) writer_.Mark(marks().system);
    writer_.Content(messages_[i]->content);
    if (i > 0) return Tools(messages_[i]->tools);
    std::vector<ToolDefinition> tools(ShownTools().begin(), ShownTools().end());
    tools.insert(tools.end(), messages_[i]->tools.begin(), messages_[i]->tools.end());
    Tools(tools);
    if (conversation_.response_format.is_null()) return;
    writer_.Own(kResponseFormat);
    writer_.Text(PythonJson(conversation_.response_format));
  }

  void Tools(std::span<const ToolDefinition> tools) {
    if (tools.empty() || conversation_.tool_choice == ToolChoice::kNone) return;
    writer_.Own("\n\n");
    WriteTools(tools, options_.schema_text, &writer_);
  }

  // Rules 4 and 5: one turn of the user's side, parts joined by an empty line, empty ones too.
  void UserSide(size_t i) {
    if (i > 0 && IsUserSide(*messages_[i - 1])) {
      writer_.Own("\n\n");
    } else {
      writer_.Mark(marks().user);
    }
    const bool result = messages_[i]->role == Role::kTool;
    if (result) writer_.Own("<tool_result>");
    writer_.Content(messages_[i]->content);
    if (result) writer_.Own("</tool_result>");
    Tools(messages_[i]->tools);
  }

  // D3: with kAfterAssistant the answer is opened before the reminders that follow what it answers.
  void OpenBeforeReminder(size_t i) {
    if (options_.reminder_place != ChatOptions::ReminderPlace::kAfterAssistant) return;
    const bool next = i + 1 < messages_.size() && messages_[i + 1]->role == Role::kLatestReminder;
    if (next && Awaits(i)) OpenAnswer(i + 1);
  }

  // Whether a message asks for an answer.
  bool Awaits(size_t i) const {
    return IsUserSide(*messages_[i]) || (messages_[i]->role == Role::kSystem && i > 0);
  }

  void OpenAnswer(size_t i) {
    if (open_) return;
    open_ = true;
    writer_.Mark(marks().assistant);
    writer_.Mark(Thinks(i) ? marks().think : marks().end_think);
    start_ = Thinks(i) ? Start::kReasoning : Start::kContent;
  }

  // Rules 7 and 12.
  void Assistant(size_t i) {
    const ChatMessage& message = *messages_[i];
    OpenAnswer(i);
    open_ = false;
    if (!CopySampled(message, Thinks(i))) Answer(message, Thinks(i));
    if (!message.to_be_continued) writer_.Mark(marks().eos);
  }

  void Answer(const ChatMessage& message, bool thinks) {
    if (thinks) {
      writer_.Text(message.reasoning);
      if (!message.reasoning.empty()) start_ = Start::kContinuedReasoning;
      if (message.to_be_continued && message.content.absent()) return;
      writer_.Mark(marks().end_think);
    }
    writer_.Content(message.content);
    start_ = SaysNothing(message.content) ? Start::kContent : Start::kContinuedContent;
    if (message.tool_calls.empty()) return;
    writer_.Own("\n\n");
    WriteCalls(message.tool_calls, options_.unwrap_arguments, &writer_);
  }

  static bool SaysNothing(const ChatContent& content) {
    return std::ranges::all_of(content.blocks, [](const auto& b) { return b.text.empty(); });
  }

  // R23. A turn that was sampled with a reasoning cannot stand where reasoning is dropped.
  bool CopySampled(const ChatMessage& message, bool thinks) {
    const bool thought = std::ranges::count(message.sampled, marks().end_think) > 0;
    if (message.sampled.empty() || thought != thinks) return false;
    for (const int32_t id : message.sampled) writer_.Mark(id);
    return true;
  }

  // Rule 9, with D2.
  void Ending() {
    if (messages_.back()->to_be_continued || !WantsAnswer()) return;
    OpenAnswer(messages_.size());
    if (conversation_.tool_choice != ToolChoice::kForced) return;
    WriteForcedCalls(&writer_);
    start_ = Start::kCalls;
  }

  bool WantsAnswer() const {
    switch (options_.generation_prompt) {
      case ChatOptions::GenerationPrompt::kNever: return false;
      case ChatOptions::GenerationPrompt::kAlways: return true;
      case ChatOptions::GenerationPrompt::kAwaited: break;
    }
    const bool reminder = messages_.back()->role == Role::kLatestReminder;
    return open_ || Awaits(messages_.size() - 1) ||
           (reminder && options_.reminder_place == ChatOptions::ReminderPlace::kInOrder);
  }

  const Conversation& conversation_;
  const ChatOptions& options_;
  ChatMessage first_ = {.role = Role::kSystem};  // stands in when tools need a system message
  std::vector<const ChatMessage*> messages_;
  PromptWriter writer_;
  size_t keeps_thoughts_from_ = 0;
  bool open_ = false;  // the marks of the next answer have been written
  Start start_ = Start::kContent;
};

// Which tokens a conversation needs beyond those of plain chat.
Status CheckMarks(const ChatMarks& marks, const Conversation& conversation,
                  const ChatOptions& options) {
  bool dsml = !conversation.tools.empty(), reminder = false, image = false;
  for (const ChatMessage& message : conversation.messages) {
    dsml |= !message.tool_calls.empty() || !message.tools.empty();
    reminder |= message.role == Role::kLatestReminder;
    for (const ContentBlock& block : message.content.blocks)
      image |= block.kind == ContentBlock::Kind::kImage;
  }
  if (dsml && marks.dsml < 0) return MissingMark(kDsmlMark);
  if (reminder && marks.reminder < 0) return MissingMark(kReminderMark);
  if (image && marks.image < 0)
    return MissingMark(options.image_token.empty() ? kImageTokens[0] : options.image_token);
  return {};
}

Status CheckForced(const Conversation& conversation, const ChatOptions& options) {
  if (conversation.tool_choice != ToolChoice::kForced) return {};
  if (AllTools(conversation).empty())
    return base::InvalidArgument("tool_choice: calls are forced, but there are no tools");
  if (!options.thinking) return {};
  return base::InvalidArgument(
      "tool_choice: a prompt cannot force calls before the model has thought; turn thinking off, "
      "or "
      "leave it to a grammar behind the reasoning");
}

Status CheckSampled(const Tokenizer& tokenizer, const ChatMarks& marks,
                    const Conversation& conversation) {
  const auto bad = [&](int32_t id) {
    return id < 0 || id >= tokenizer.vocab_size() || id == marks.bos || id == marks.eos ||
           id == marks.system || id == marks.user || id == marks.assistant;
  };
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    if (std::ranges::any_of(conversation.messages[i].sampled, bad))
      return base::InvalidArgument(
          fmt::format("messages[{}].sampled: a token that is no part of an answer", i));
  }
  return {};
}

}  // namespace

ChatOptions ChatOptions::HuggingFace() {
  ChatOptions options;
  options.drop_thinking = true;
  options.generation_prompt = GenerationPrompt::kAwaited;
  options.reminder_place = ReminderPlace::kAfterAssistant;
  options.schema_text = SchemaText::kAsGiven;
  options.unwrap_arguments = true;
  return options;
}

Result<RenderedChat> RenderChat(const Tokenizer& tokenizer, const Conversation& conversation,
                                const ChatOptions& options) {
  const bool answers = options.generation_prompt == ChatOptions::GenerationPrompt::kAlways;
  TW_TRY(ValidateConversation(conversation, answers));
  if (options.thinking) TW_TRY(CheckEffort(options.effort));
  TW_TRY(CheckForced(conversation, options));
  TW_ASSIGN(const ChatMarks marks, ChatMarks::Find(tokenizer, options.image_token));
  TW_TRY(CheckMarks(marks, conversation, options));
  TW_TRY(CheckSampled(tokenizer, marks, conversation));
  return Renderer(marks, conversation, options).Render();
}

Result<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer,
                                        const Conversation& conversation,
                                        const ChatOptions& options) {
  TW_ASSIGN(const RenderedChat chat, RenderChat(tokenizer, conversation, options));
  return EncodePieces(tokenizer, chat.pieces);
}

}  // namespace thalweg::text
