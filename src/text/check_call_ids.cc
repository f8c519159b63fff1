#include <fmt/format.h>

#include <string_view>
#include <unordered_map>

#include "text/chat_checks.h"
#include "text/utf8.h"

namespace thalweg::text {
namespace {

// The calls of the last assistant message, and which of them have results.
class CallIds {
 public:
  explicit CallIds(std::span<const ChatMessage> messages) : messages_(messages) {}

  Status Take(size_t i) {
    if (messages_[i].role == Role::kTool) return Result(i);
    return messages_[i].role == Role::kAssistant ? Calls(i) : Status();
  }

  // Every call has its result.
  Status Close() const {
    if (caller_ == kNone) return {};
    const auto& calls = messages_[caller_].tool_calls;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (!answered_.at(calls[i].id))
        return FieldError(
            PathOfId(caller_, i),
            fmt::format("no tool message has the result of call \"{}\"", Excerpt(calls[i].id)));
    }
    return {};
  }

 private:
  static std::string PathOfId(size_t message, size_t call) {
    return fmt::format("messages[{}].tool_calls[{}].id", message, call);
  }

  Status Calls(size_t i) {
    TW_TRY(Close());
    answered_.clear();
    const auto& calls = messages_[i].tool_calls;
    caller_ = calls.empty() ? kNone : i;
    for (size_t k = 0; k < calls.size(); ++k) {
      if (!answered_.emplace(calls[k].id, false).second)
        return FieldError(
            PathOfId(i, k),
            fmt::format("another call of the message has the id \"{}\"", Excerpt(calls[k].id)));
    }
    return {};
  }

  Status Result(size_t i) {
    const std::string path = fmt::format("messages[{}]", i);
    if (caller_ == kNone)
      return FieldError(path, "a tool message must follow an assistant message with tool_calls");
    const auto at = answered_.find(messages_[i].tool_call_id);
    if (at == answered_.end())
      return FieldError(path + ".tool_call_id",
                        fmt::format("messages[{}] has no call \"{}\"", caller_,
                                    Excerpt(messages_[i].tool_call_id)));
    if (at->second)
      return FieldError(path + ".tool_call_id",
                        fmt::format("a second result of call \"{}\"", Excerpt(at->first)));
    at->second = true;
    return {};
  }

  static constexpr size_t kNone = ~size_t{0};
  std::span<const ChatMessage> messages_;
  size_t caller_ = kNone;
  std::unordered_map<std::string_view, bool> answered_;
};

}  // namespace

Status CheckCallIds(std::span<const ChatMessage> messages, bool answered) {
  CallIds ids(messages);
  for (size_t i = 0; i < messages.size(); ++i) TW_TRY(ids.Take(i));
  const bool open_end = !answered && messages.back().role == Role::kAssistant;
  return open_end ? Status() : ids.Close();
}

}  // namespace thalweg::text
