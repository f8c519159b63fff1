// What a conversation asks of the model, whichever protocol it came in: prompt, parameters,
// grammar, and how the answer is read.
#pragma once

#include <string>
#include <vector>

#include "server/fields.h"
#include "server/reply.h"
#include "text/chat_json.h"
#include "text/output_decoder.h"

namespace thalweg::server {

struct ChatPlan {
  ModelRequest request = {};
  text::OutputDecoderOptions decoder = {};
  bool thinking = false;  // the answer begins with reasoning
  bool tools = false;     // it may have calls
};

// What protocols read in ways of their own.
struct ChatFields {
  text::ChatRequest chat = {};
  SamplingParams params = {};
  RequestOptions options = {};
  std::vector<std::string> stops = {};
  std::string so_args = {};  // what the content must be; empty: anything
};

// Renders the prompt, chooses the grammar: a schema binds what follows the reasoning; required and
// named tools bind it to a block of calls; with "auto" a block, where one comes, follows the
// schemas of the tools.
Result<ChatPlan> PlanChat(ChatFields fields, const Services& services);

// The fields of a body of OpenAI's chat completions.
Result<ChatFields> ReadChatFields(const Json& body, const Services& services);

}  // namespace thalweg::server
