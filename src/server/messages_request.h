// Anthropic's Messages, read.
#pragma once

#include "server/chat_plan.h"
#include "server/fields.h"

namespace thalweg::server {

struct MessagesCall {
  ChatFields fields = {};
  bool stream = false;
};

// `counting`: of count_tokens, which needs no max_tokens.
Result<MessagesCall> ReadMessagesCall(const Json& body, const Services& services, bool counting);

}  // namespace thalweg::server
