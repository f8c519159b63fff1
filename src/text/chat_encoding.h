// A conversation as a prompt of DeepSeek-V4.1 (spec/serving.md 2.2 to 2.6, 2.9; docs/chat.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/chat_message.h"
#include "text/effort.h"
#include "text/output_decoder.h"
#include "text/pieces.h"
#include "text/tokenizer.h"

namespace thalweg::text {

// Where published encoders of this format disagree (spec/serving.md 2.9), each choice is an option.
// The defaults are those of a server: prompts of a growing conversation only ever grow, so that
// cached prefixes stay good.
struct ChatOptions {
  bool thinking = true;         // D8
  int effort = kDefaultEffort;  // kMinEffort..kMaxEffort; used with thinking only

  // D1. True: reasoning of assistant turns before the last user turn is dropped, unless tools are
  // declared (Hugging Face's encoder). System messages after the first one and results of tools
  // count as user turns. False: all of it is kept.
  bool drop_thinking = false;

  // D2: whether the prompt ends with <｜Assistant｜> and the think mark. An assistant message that
  // is to be continued is never followed by them.
  enum class GenerationPrompt : uint8_t {
    kNever,
    kAlways,
    kAwaited,  // unless the last message is an assistant's or the only one a system's (Hugging
               // Face)
  };
  GenerationPrompt generation_prompt = GenerationPrompt::kAlways;

  // D3: a latest_reminder behind a user turn stands...
  enum class ReminderPlace : uint8_t {
    kInOrder,         // where it stands among the messages
    kAfterAssistant,  // behind the <｜Assistant｜> and think mark of the answer (Hugging Face)
  };
  ReminderPlace reminder_place = ReminderPlace::kInOrder;

  // D4: a tool's schema is written as...
  enum class SchemaText : uint8_t {
    kNormalised,  // {"name", "description", "parameters"}
    kAsGiven,     // the client's function object, all of its keys in their order
  };
  SchemaText schema_text = SchemaText::kNormalised;

  // D5: the token that stands for an image; empty: <｜image｜> or <｜deepseek_image｜>, whichever
  // the tokenizer has.
  std::string image_token = {};

  // D6: arguments that are a JSON string of a JSON object count as that object.
  bool unwrap_arguments = false;

  // What the Hugging Face encoder does: D1 to D4 in its way. For offline use.
  static ChatOptions HuggingFace();
};

struct RenderedChat {
  std::vector<Piece> pieces = {};
  std::vector<std::string> images = {};  // sources, in the order of their placeholders
  // What the prompt ends with: where the decoder of the answer begins.
  OutputDecoderOptions::Start start = OutputDecoderOptions::Start::kContent;
};

// The prompt of a conversation. What ValidateConversation refuses, an effort out of range, or a
// tokenizer that lacks a token that is needed is an error that names the field or the token.
Result<RenderedChat> RenderChat(const Tokenizer& tokenizer, const Conversation& conversation,
                                const ChatOptions& options);

// RenderChat and EncodePieces: token ids.
Result<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer,
                                        const Conversation& conversation,
                                        const ChatOptions& options);

// Checks of a conversation that need no tokenizer (spec/serving.md 2.8): order and fields of roles,
// calls and their results, names and schemas of tools, image placeholders in texts. Errors are
// "path: what is wrong", the path as in "messages[3].tool_calls[0].id". The history that the
// messages tell is all that counts: ids of calls need not be known from anywhere else (R51).
// `answered`: calls of the last message need results too.
Status ValidateConversation(const Conversation& conversation, bool answered = true);

}  // namespace thalweg::text
