// Stop strings in text that arrives in pieces (spec/decoding.md 4.2). The text ends at the first
// character at which any stop string is complete, however the text was cut into pieces; of several
// that are complete there, the longest is taken.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "text/byte_patterns.h"

namespace thalweg::engine {

using StopStrings = text::BytePatterns;
using text::kMaxStopBytes;
using text::kMaxStopStrings;

// One text against the strings. What could still become a stop string is held back.
class StopMatcher {
 public:
  // `stop` must outlive the matcher.
  StopMatcher(const StopStrings& stop, bool include_stop)
      : stop_(&stop), scan_(stop), include_stop_(include_stop) {}

  // Appends text and returns what is certain now. With may_stop, a stop string that becomes
  // complete ends the text: what follows is dropped and found() names the string. Without, strings
  // that are completed pass as text.
  std::string Push(std::string_view text, bool may_stop);
  // What was held back, when the text ends without a stop string.
  std::string Flush();

  // Index of the stop string that ended the text.
  std::optional<size_t> found() const { return found_; }
  size_t held_bytes() const { return held_.size(); }

 private:
  std::string End(size_t string);

  const StopStrings* stop_;
  text::PatternScan scan_;
  bool include_stop_;
  std::string held_;
  std::optional<size_t> found_;
};

}  // namespace thalweg::engine
