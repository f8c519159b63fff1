// Finds the matches of a split pattern in time linear in the text, whatever pattern and text: the
// pattern becomes a deterministic automaton over character classes, with the leftmost-first meaning
// of a backtracking engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "text/char_classes.h"

namespace thalweg::text {

inline constexpr size_t kMaxRegexStates = 4096;  // of the automaton

class SplitRegex {
 public:
  static Result<SplitRegex> Compile(std::string_view pattern);

  static constexpr size_t kNoMatch = static_cast<size_t>(-1);

 private:
  friend class SplitScanner;
  friend class DfaBuilder;

  SplitRegex() = default;

  // The entry of a state for a class: bit 0 says that a match ends before the character, the rest
  // is the row of the next state (already times the row width).
  uint32_t Entry(uint32_t row, uint32_t char_class) const { return table_[row + char_class]; }

  static constexpr uint32_t kDeadRow = 0;
  uint32_t start_row_ = 0;
  uint32_t end_class_ = 0;  // the class of the end of the text
  CharClasses classes_;
  std::vector<uint32_t> table_;  // [state][class], rows of a power of two
};

// One pass over one text, which must be well-formed UTF-8 and outlive the scanner.
class SplitScanner {
 public:
  SplitScanner(const SplitRegex& regex, std::string_view text) : regex_(regex), text_(text) {}

  // The next match, left to right without overlap; false at the end.
  bool Next(size_t& start, size_t& end);

 private:
  uint32_t ClassAt(size_t pos, size_t& next) const;
  size_t MatchAt(size_t pos);
  size_t MatchAtRemembering(size_t pos);

  const SplitRegex& regex_;
  std::string_view text_;
  size_t pos_ = 0;
  // Characters looked at beyond the ends of matches. A pattern like a*b|a looks at the whole rest
  // of a run of a's from each a; once that has cost too much, the scanner remembers from which
  // (state, position) no match comes, and the total becomes linear (Reps, 1998).
  size_t overshoot_ = 0;
  std::unordered_set<uint64_t> barren_;
};

}  // namespace thalweg::text
