#include "engine/stop_strings.h"

#include <utility>

namespace thalweg::engine {

std::string StopMatcher::End(size_t string) {
  found_ = string;
  std::string text = std::exchange(held_, {});
  if (!include_stop_) text.resize(text.size() - stop_->text(string).size());
  return text;
}

std::string StopMatcher::Push(std::string_view text, bool may_stop) {
  if (found_.has_value()) return {};
  if (stop_->empty()) return std::string(text);
  for (const char byte : text) {
    held_.push_back(byte);
    const auto complete = scan_.Advance(byte);
    if (may_stop && complete.has_value()) return End(complete->pattern);
  }
  const size_t certain = held_.size() - scan_.held();
  std::string out = held_.substr(0, certain);
  held_.erase(0, certain);
  return out;
}

std::string StopMatcher::Flush() { return std::exchange(held_, {}); }

}  // namespace thalweg::engine
