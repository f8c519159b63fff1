#include "text/sampled_turns.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "text/tool_text.h"

namespace thalweg::text {
namespace {

// Content that is empty and content that is not there are the same in a prompt.
std::string TextOf(const ChatContent& content) {
  std::string text;
  bool first = true;
  for (const ContentBlock& block : content.blocks) {
    if (!std::exchange(first, false)) text += "\n\n";
    text += block.text;
  }
  return text;
}

// Clients may write the JSON of arguments anew.
bool SameArguments(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto first = ArgumentsObject(a, false);
  return first && first == ArgumentsObject(b, false);
}

bool SameCalls(const std::vector<ToolCall>& a, const std::vector<ToolCall>& b) {
  const auto same = [](const ToolCall& x, const ToolCall& y) {
    return x.id == y.id && FullName(x) == FullName(y) && SameArguments(x.arguments, y.arguments);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

bool SaysTheSame(const ChatMessage& a, const ChatMessage& b) {
  return a.reasoning == b.reasoning && TextOf(a.content) == TextOf(b.content) &&
         SameCalls(a.tool_calls, b.tool_calls);
}

}  // namespace

void SampledTurns::Forget(std::list<ChatMessage>::iterator turn) {
  tokens_ -= turn->sampled.size();
  by_id_.erase(turn->tool_calls[0].id);
  turns_.erase(turn);
}

void SampledTurns::Remember(ChatMessage turn) {
  if (turn.tool_calls.empty() || turn.sampled.empty()) return;
  const std::lock_guard lock(mutex_);
  const std::string id = turn.tool_calls[0].id;
  if (const auto old = by_id_.find(id); old != by_id_.end()) Forget(old->second);
  tokens_ += turn.sampled.size();
  turns_.push_front(std::move(turn));
  by_id_.emplace(id, turns_.begin());
  while (tokens_ > max_tokens_) Forget(std::prev(turns_.end()));
}

void SampledTurns::Restore(Conversation* conversation) {
  const std::lock_guard lock(mutex_);
  for (ChatMessage& message : conversation->messages) {
    if (message.role != Role::kAssistant || message.tool_calls.empty()) continue;
    const auto at = by_id_.find(message.tool_calls[0].id);
    if (at == by_id_.end() || !SaysTheSame(*at->second, message)) continue;
    message.sampled = at->second->sampled;
    turns_.splice(turns_.begin(), turns_, at->second);
  }
}

size_t SampledTurns::tokens() const {
  const std::lock_guard lock(mutex_);
  return tokens_;
}

ChatMessage ToMessage(const DecodedOutput& output) {
  ChatMessage message{.role = Role::kAssistant, .reasoning = output.reasoning};
  if (!output.content.empty() || output.calls.empty()) message.content = output.content;
  for (const DecodedCall& call : output.calls)
    message.tool_calls.push_back({.id = call.id, .name = call.name, .arguments = call.arguments});
  return message;
}

}  // namespace thalweg::text
