#include "text/byte_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/utf8.h"

namespace thalweg::text {
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

Status CheckStopStrings(std::span<const std::string> stops) {
  if (stops.size() > kMaxStopStrings) {
    return base::InvalidArgument(
        fmt::format("{} stop strings, but {} at most are taken", stops.size(), kMaxStopStrings));
  }
  for (const std::string& stop : stops) {
    if (stop.empty()) return base::InvalidArgument("a stop string is empty: leave it out");
    if (stop.size() > kMaxStopBytes) {
      return base::InvalidArgument(
          fmt::format("a stop string has {} bytes; the limit is {}", stop.size(), kMaxStopBytes));
    }
    if (!IsValidUtf8(stop)) return base::InvalidArgument("a stop string is not valid UTF-8");
  }
  return {};
}

BytePatterns::BytePatterns(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) Add(text);
}

void BytePatterns::Add(std::string text, bool newlines) {
  TW_CHECK(!text.empty());
  TW_CHECK(!newlines || text.find('\n') == std::string::npos);
  std::vector<uint32_t> borders = Borders(text);
  patterns_.push_back({std::move(text), newlines, std::move(borders)});
  any_newlines_ = any_newlines_ || newlines;
}

size_t BytePatterns::Next(size_t i, size_t matched, char byte) const {
  const auto& [text, newlines, borders] = patterns_[i];
  if (matched == text.size()) matched = borders[matched - 1];
  while (matched > 0 && text[matched] != byte) matched = borders[matched - 1];
  return text[matched] == byte ? matched + 1 : 0;
}

// A match that begins at this byte takes the run of newlines before it along; one that begins
// inside what was matched before has bytes of the pattern before it, and those are no newlines.
void PatternScan::Advance(size_t i, char byte) {
  Progress& progress = progress_[i];
  const size_t next = patterns_->Next(i, progress.matched, byte);
  if (next == 1 && patterns_->newlines(i)) {
    progress.newlines = run_;
  } else if (next != progress.matched + 1) {
    progress.newlines = 0;
  }
  progress.matched = next;
}

std::optional<PatternScan::Match> PatternScan::Advance(char byte) {
  std::optional<size_t> best;
  for (size_t i = 0; i < progress_.size(); ++i) {
    Advance(i, byte);
    const size_t length = patterns_->text(i).size();
    if (progress_[i].matched != length) continue;
    if (!best || length > patterns_->text(*best).size()) best = i;
  }
  run_ = byte == '\n' ? run_ + 1 : 0;
  if (!best) return std::nullopt;
  return Match{*best, progress_[*best].matched + progress_[*best].newlines};
}

// A pattern that is complete and was let pass may still begin another match at its border.
size_t PatternScan::Held(size_t i) const {
  const auto& [matched, newlines] = progress_[i];
  if (matched == patterns_->text(i).size()) return patterns_->Border(i);
  return matched == 0 ? 0 : matched + newlines;
}

size_t PatternScan::held() const {
  size_t longest = patterns_ != nullptr && patterns_->any_newlines() ? run_ : 0;
  for (size_t i = 0; i < progress_.size(); ++i) longest = std::max(longest, Held(i));
  return longest;
}

}  // namespace thalweg::text
