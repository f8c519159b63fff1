// OpenAI's Responses, read. Stateless: the history is in the request; what asks for more of it is
// refused.
#pragma once

#include <string>
#include <vector>

#include "server/chat_plan.h"
#include "server/fields.h"

namespace thalweg::server {

struct ResponsesCall {
  ChatFields fields = {};
  bool stream = false;
  std::vector<std::string> custom_tools = {};  // whose input is a text, not JSON
  Json echoed = Json::object();                // what the response repeats of the request
};

// The parameter of a custom tool that holds its text.
inline constexpr std::string_view kCustomInput = "input";

Result<ResponsesCall> ReadResponsesCall(const Json& body, const Services& services);

}  // namespace thalweg::server
