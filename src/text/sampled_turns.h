// Turns of the model with their tokens, so that the prompts that follow repeat them (R23 of
// docs/chat.md).
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

#include "text/chat_message.h"
#include "text/output_events.h"

namespace thalweg::text {

// Thread-safe. Holds the turns that were used last, up to a number of tokens.
class SampledTurns {
 public:
  explicit SampledTurns(size_t max_tokens) : max_tokens_(max_tokens) {}

  // A turn with calls, known by the id of its first one, and ChatMessage::sampled. A turn without
  // either is not held.
  void Remember(ChatMessage turn);

  // Sets `sampled` of every assistant message that says what a remembered turn said: reasoning,
  // content, calls and their arguments. Others stay as they are: history wins.
  void Restore(Conversation* conversation);

  size_t tokens() const;

 private:
  void Forget(std::list<ChatMessage>::iterator turn);

  const size_t max_tokens_;
  mutable std::mutex mutex_;
  std::list<ChatMessage> turns_;  // the last used one first
  std::unordered_map<std::string, std::list<ChatMessage>::iterator> by_id_;
  size_t tokens_ = 0;
};

// The message that a client gets of a turn, and hands back.
ChatMessage ToMessage(const DecodedOutput& output);

}  // namespace thalweg::text
