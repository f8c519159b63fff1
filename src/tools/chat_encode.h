// Conversations in files as the prompts that a model is given.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/options.h"
#include "base/status.h"
#include "text/chat_json.h"
#include "text/tokenizer.h"

namespace thalweg::tools {

struct ChatEncodeOptions {
  text::ChatOptions chat = {};
  bool force_calls = false;  // where tools are there
  // The command line's word stands over that of a conversation.
  std::optional<bool> thinking = {};
  std::optional<text::EffortChoice> effort = {};

  static std::vector<base::OptionRow> Rows();
  static Result<ChatEncodeOptions> From(const base::OptionValues& values);
};

struct EncodedChat {
  std::string prompt = {};  // marks by their spelling
  std::vector<int32_t> ids = {};
  std::vector<std::string> images = {};
  std::string start =
      {};  // "reasoning", "content", "continued_reasoning", "continued_content", "calls"
};

// A conversation: the body of a chat request, or its messages alone.
Result<EncodedChat> EncodeConversation(const text::Tokenizer& tokenizer, const base::Json& body,
                                       const ChatEncodeOptions& options);

// The conversations of a file: one JSON document, or one on each line (JSONL). `what` names the
// file in messages.
Result<std::vector<base::Json>> ReadConversations(std::string_view file, std::string_view what);

// {"prompt", "token_ids", "images", "start"}.
base::Json ToJson(const EncodedChat& chat);

}  // namespace thalweg::tools
