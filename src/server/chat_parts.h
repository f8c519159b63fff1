// Conversations of other protocols as a body of OpenAI's chat completions: one reader
// (text/chat_json.h) then takes all of them.
#pragma once

#include <string>

#include "server/fields.h"

namespace thalweg::server {

// Messages as they are collected: neighbouring parts of one assistant turn are one message.
class MessageList {
 public:
  void AddText(std::string_view role, std::string_view text);
  // A block of a user's message that is no text, as OpenAI has it.
  void AddBlock(std::string_view role, Json block);
  void AddReasoning(const std::string& text);
  void AddCall(const std::string& id, const std::string& name, const std::string& name_space,
               const std::string& arguments);
  void AddResult(const std::string& id, Json content);
  // What follows is a message of its own.
  void EndMessage() { open_ = false; }
  Json Take() { return std::move(messages_); }

 private:
  Json& Assistant(bool begins_turn);
  Json& Message(std::string_view role);

  Json messages_ = Json::array();
  bool open_ = false;  // the last message may grow
};

// A text, or the texts of an array of blocks {"type": ..., "text": ...}; nothing is an empty text.
// `what` names the field in errors.
Result<std::string> TextOfBlocks(const Json& content, std::string_view what);

// A member that must be a string.
Result<std::string> RequiredString(const Json& object, std::string_view name,
                                   std::string_view what);

}  // namespace thalweg::server
