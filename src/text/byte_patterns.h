// Fixed strings looked for in bytes that arrive one by one, in time linear in the bytes: which are
// complete now, and how much of the end may still become one (Knuth, Morris, Pratt).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thalweg::text {

inline constexpr size_t kMaxStopStrings = 64;
inline constexpr size_t kMaxStopBytes = 4096;  // of one string

// Whether strings that end a text may be used as that: at most so many, none of them empty, too
// long or ill-formed UTF-8.
Status CheckStopStrings(std::span<const std::string> stops);

class BytePatterns {
 public:
  BytePatterns() = default;
  explicit BytePatterns(const std::vector<std::string>& texts);

  // `text` is not empty. With `newlines`, it has no newline, and all those directly before it
  // belong to a match.
  void Add(std::string text, bool newlines = false);

  bool empty() const { return patterns_.empty(); }
  size_t size() const { return patterns_.size(); }
  const std::string& text(size_t i) const { return patterns_[i].text; }
  bool newlines(size_t i) const { return patterns_[i].newlines; }
  bool any_newlines() const { return any_newlines_; }
  // Bytes of pattern i that are matched after `byte`, when `matched` were before.
  size_t Next(size_t i, size_t matched, char byte) const;
  // The longest proper prefix of pattern i that also ends it, in bytes.
  size_t Border(size_t i) const { return patterns_[i].borders.back(); }

 private:
  struct Pattern {
    std::string text;
    bool newlines = false;
    std::vector<uint32_t> borders;  // [k]: the longest proper prefix that ends the first k + 1
  };
  std::vector<Pattern> patterns_;
  bool any_newlines_ = false;
};

// One stream of bytes against the patterns.
class PatternScan {
 public:
  struct Match {
    size_t pattern = 0;
    size_t length = 0;  // bytes, newlines before it included
  };

  PatternScan() = default;
  // `patterns` must outlive the scan.
  explicit PatternScan(const BytePatterns& patterns)
      : patterns_(&patterns), progress_(patterns.size()) {}

  // The pattern that `byte` completes; of several, the longest. The scan goes on behind it as if it
  // were text.
  std::optional<Match> Advance(char byte);

  // Bytes at the end that may still become a match.
  size_t held() const;

 private:
  struct Progress {
    size_t matched = 0;   // bytes of the pattern that end the text
    size_t newlines = 0;  // that belong to it, before them
  };
  void Advance(size_t i, char byte);
  size_t Held(size_t i) const;

  const BytePatterns* patterns_ = nullptr;
  std::vector<Progress> progress_;
  size_t run_ = 0;  // newlines that end the text
};

}  // namespace thalweg::text
