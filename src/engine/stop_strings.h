// Stop strings in text that arrives in pieces (spec/decoding.md 4.2). The text ends at the first
// character at which any stop string is complete, however the text was cut into pieces; of several
// that are complete there, the longest is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thalweg::engine {

inline constexpr size_t kMaxStopStrings = 64;
inline constexpr size_t kMaxStopBytes = 4096;  // of one string

class StopStrings {
 public:
  StopStrings() = default;
  // None of them is empty.
  explicit StopStrings(std::vector<std::string> strings);

  bool empty() const { return strings_.empty(); }
  size_t size() const { return strings_.size(); }
  const std::string& text(size_t i) const { return strings_[i]; }
  // Bytes of string i that are matched after `byte`, when `matched` were before.
  size_t Next(size_t i, size_t matched, char byte) const;
  // The longest proper prefix of string i that also ends it, in bytes.
  size_t Border(size_t i) const { return borders_[i].back(); }

 private:
  std::vector<std::string> strings_;
  // [string][k]: the longest proper prefix that ends the first k + 1 bytes (Knuth, Morris, Pratt).
  std::vector<std::vector<uint32_t>> borders_;
};

// One text against the strings. What could still become a stop string is held back.
class StopMatcher {
 public:
  // `stop` must outlive the matcher.
  StopMatcher(const StopStrings& stop, bool include_stop)
      : stop_(&stop), include_stop_(include_stop), matched_(stop.size(), 0) {}

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
  void Advance(char byte);
  size_t LongestPartial() const;
  std::optional<size_t> LongestComplete() const;
  std::string End(size_t string);

  const StopStrings* stop_;
  bool include_stop_;
  std::vector<size_t> matched_;  // per string: bytes of it that end the text so far
  std::string held_;
  std::optional<size_t> found_;
};

}  // namespace thalweg::engine
