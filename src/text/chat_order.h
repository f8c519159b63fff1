// Messages in the order in which they are rendered (spec/serving.md 2.3 rule 6).
#pragma once

#include <span>
#include <vector>

#include "text/chat_message.h"

namespace thalweg::text {

// Results of tools in a run of user and tool messages stand in the order of the calls of the
// assistant message before, in the places where results stood; all else keeps its place. A result
// of an unknown call counts as one of the first call.
std::vector<const ChatMessage*> OrderMessages(std::span<const ChatMessage> messages);

}  // namespace thalweg::text
