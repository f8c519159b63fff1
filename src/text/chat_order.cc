#include "text/chat_order.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace thalweg::text {
namespace {

using Ranks = std::unordered_map<std::string_view, size_t>;

Ranks RanksOf(const ChatMessage& assistant) {
  Ranks ranks;
  for (const ToolCall& call : assistant.tool_calls) ranks.emplace(call.id, ranks.size());
  return ranks;
}

size_t RankOf(const Ranks& ranks, const ChatMessage* result) {
  const auto at = ranks.find(result->tool_call_id);
  return at == ranks.end() ? 0 : at->second;
}

void SortResults(const Ranks& ranks, std::span<const ChatMessage*> run) {
  std::vector<const ChatMessage*> results;
  for (const ChatMessage* message : run) {
    if (message->role == Role::kTool) results.push_back(message);
  }
  std::ranges::stable_sort(results, {},
                           [&](const ChatMessage* result) { return RankOf(ranks, result); });
  auto next = results.begin();
  for (const ChatMessage*& place : run) {
    if (place->role == Role::kTool) place = *next++;
  }
}

bool InRun(const ChatMessage* message) {
  return message->role == Role::kUser || message->role == Role::kTool;
}

}  // namespace

std::vector<const ChatMessage*> OrderMessages(std::span<const ChatMessage> messages) {
  std::vector<const ChatMessage*> ordered;
  for (const ChatMessage& message : messages) ordered.push_back(&message);
  Ranks ranks;
  for (size_t i = 0; i < ordered.size();) {
    size_t end = i;
    while (end < ordered.size() && InRun(ordered[end])) ++end;
    SortResults(ranks, std::span(ordered).subspan(i, end - i));
    if (end < ordered.size() && ordered[end]->role == Role::kAssistant) {
      ranks = RanksOf(*ordered[end]);
    }
    i = end + 1;
  }
  return ordered;
}

}  // namespace thalweg::text
