// Reads prompts back into conversations, for tests: written from the description of the format,
// independent of the code that renders.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/chat_message.h"
#include "text/pieces.h"

namespace thalweg::text {

struct ReadPrompt {
  // Tools have full names, results and calls no ids. A system mark is a system message.
  Conversation conversation = {};
  int effort = 0;     // 0: none is given
  std::string error;  // what could not be read; empty: all could
};

class PromptReader {
 public:
  PromptReader(const Tokenizer& tokenizer, std::span<const Piece> pieces);
  ReadPrompt Read();

 private:
  void ReadTurn(char role, std::string_view body);
  void ReadSystem(std::string_view body);
  void ReadUserSide(std::string_view body);
  void ReadAssistant(std::string_view body);
  void ReadCalls(std::string_view block, ChatMessage* message);
  void ReadArguments(std::string_view* block, ToolCall* call);
  std::vector<ToolDefinition> ReadTools(std::string_view schemas);
  // Takes `text` off the front, or records an error.
  bool Take(std::string_view text, std::string_view* from);
  std::string_view TakeUntil(std::string_view end, std::string_view* from);
  void Fail(std::string_view what);

  std::string spelled_;  // marks as \x01 and a letter
  ReadPrompt out_;
};

}  // namespace thalweg::text
