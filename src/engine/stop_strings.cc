#include "engine/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace thalweg::engine {
namespace {

std::vector<uint32_t> Borders(std::string_view text) {
  std::vector<uint32_t> borders(text.size(), 0);
  for (size_t i = 1; i < text.size(); ++i) {
    uint32_t k = borders[i - 1];
    while (k > 0 && text[k] != text[i]) k = borders[k - 1];
    borders[i] = text[k] == text[i] ? k + 1 : 0;
  }
  return borders;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  for (const std::string& string : strings_) {
    TW_CHECK(!string.empty());
    borders_.push_back(Borders(string));
  }
}

size_t StopStrings::Next(size_t i, size_t matched, char byte) const {
  const std::string& text = strings_[i];
  const std::vector<uint32_t>& borders = borders_[i];
  if (matched == text.size()) matched = borders[matched - 1];
  while (matched > 0 && text[matched] != byte) matched = borders[matched - 1];
  return text[matched] == byte ? matched + 1 : 0;
}

void StopMatcher::Advance(char byte) {
  for (size_t i = 0; i < matched_.size(); ++i) matched_[i] = stop_->Next(i, matched_[i], byte);
}

std::optional<size_t> StopMatcher::LongestComplete() const {
  std::optional<size_t> best;
  for (size_t i = 0; i < matched_.size(); ++i) {
    const size_t length = stop_->text(i).size();
    if (matched_[i] == length && (!best.has_value() || length > stop_->text(*best).size()))
      best = i;
  }
  return best;
}

// A string that is complete and was let pass may still begin another match at its border.
size_t StopMatcher::LongestPartial() const {
  size_t longest = 0;
  for (size_t i = 0; i < matched_.size(); ++i) {
    size_t partial = matched_[i];
    if (partial == stop_->text(i).size()) partial = stop_->Border(i);
    longest = std::max(longest, partial);
  }
  return longest;
}

std::string StopMatcher::End(size_t string) {
  found_ = string;
  std::string text = std::move(held_);
  held_.clear();
  if (!include_stop_) text.resize(text.size() - stop_->text(string).size());
  return text;
}

std::string StopMatcher::Push(std::string_view text, bool may_stop) {
  if (found_.has_value()) return {};
  if (matched_.empty()) return std::string(text);
  for (const char byte : text) {
    held_.push_back(byte);
    Advance(byte);
    if (!may_stop) continue;
    if (const std::optional<size_t> complete = LongestComplete()) return End(*complete);
  }
  const size_t certain = held_.size() - LongestPartial();
  std::string out = held_.substr(0, certain);
  held_.erase(0, certain);
  return out;
}

std::string StopMatcher::Flush() { return std::exchange(held_, {}); }

}  // namespace thalweg::engine
