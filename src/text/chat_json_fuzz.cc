// Any bytes as the body of a chat request: an error, or a conversation whose tools, calls and
// results can be written. What is read is valid by the rules of conversations.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/chat_json.h"
#include "text/chat_order.h"
#include "text/tool_text.h"

namespace thalweg::text {
namespace {

void Write(const Conversation& conversation) {
  const ChatMarks marks = {.think = 1, .end_think = 2, .dsml = 3, .image = 4};
  PromptWriter writer(marks);
  WriteTools(conversation.tools, ChatOptions::SchemaText::kNormalised, &writer);
  WriteTools(conversation.tools, ChatOptions::SchemaText::kAsGiven, &writer);
  for (const ChatMessage* message : OrderMessages(conversation.messages)) {
    writer.Content(message->content);
    WriteCalls(message->tool_calls, true, &writer);
  }
}

void Check(std::string_view text) {
  const Result<base::Json> body = base::ParseJson(text, "body", kChatJsonLimits);
  if (!body.ok()) return;
  const Result<ChatRequest> request = ReadChatRequest(*body);
  if (!request.ok()) return;
  TW_CHECK(ValidateConversation(request->conversation, false).ok());
  Write(request->conversation);
}

}  // namespace
}  // namespace thalweg::text

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  thalweg::text::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
