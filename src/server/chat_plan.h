// What a conversation asks of the model, whichever protocol it came in: prompt, parameters,
// grammar, and how the answer is read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/fields.h"
#include "server/reply.h"
#include "server/structure.h"
#include "server/tool_checks.h"
#include "text/chat_json.h"
#include "text/output_decoder.h"
#include "text/sampled_turns.h"

namespace thalweg::server {

struct ChatPlan {
  ModelRequest request = {};
  text::OutputDecoderOptions decoder = {};
  bool thinking = false;                          // the answer begins with reasoning
  bool tools = false;                             // it may have calls
  std::shared_ptr<const ToolChecks> checks = {};  // of the calls; null: none
  // Where an answer with calls is remembered; null: nowhere.
  text::SampledTurns* turns = nullptr;
};

// What protocols read in ways of their own.
struct ChatFields {
  text::ChatRequest chat = {};
  SamplingParams params = {};
  RequestOptions options = {};
  std::vector<std::string> stops = {};
  StructureChoice structure = {};                 // what the content must be
  std::vector<ToolSchemaPlace> tool_places = {};  // for errors
  bool generation_prompt = true;                  // the prompt ends with the beginning of an answer
  bool check_arguments = false;                   // of calls of all tools, not of strict ones alone
};

// Renders the prompt, chooses the grammar: a schema binds what follows the reasoning; required and
// named tools bind it to a block of calls; with "auto" a block, where one comes, follows the
// schemas of the tools.
Result<ChatPlan> PlanChat(ChatFields fields, Services& services);

// "check_arguments", which all protocols take.
Status ReadCheckArguments(const Json& body, ChatFields* fields);

// The fields of a body of OpenAI's chat completions.
Result<ChatFields> ReadChatFields(const Json& body, const Services& services);

}  // namespace thalweg::server
