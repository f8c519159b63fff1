// Characters, escapes and classes of a regular expression.
#pragma once

#include <unicode/uniset.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"
#include "grammar/regex_syntax.h"

namespace thalweg::grammar {

// Reads a pattern from left to right. The pattern is valid UTF-8.
class RegexCursor {
 public:
  RegexCursor(std::string_view pattern, RegexDialect dialect)
      : pattern_(pattern), dialect_(dialect) {}

  size_t offset() const { return offset_; }
  bool done() const { return offset_ >= pattern_.size(); }
  bool ecma() const { return dialect_ == RegexDialect::kSearch; }
  std::string_view rest() const { return pattern_.substr(offset_); }
  std::string_view From(size_t start) const { return pattern_.substr(start, offset_ - start); }
  char Peek() const { return done() ? '\0' : pattern_[offset_]; }
  void Skip(size_t bytes) { offset_ += bytes; }
  bool TakeIf(std::string_view text);
  uint32_t TakeCodePoint();  // not done()

  // After a backslash: the characters of an escape that stands for one of a set (\d, \p{L}) or for
  // one character (\n, \x41). Assertions are the caller's.
  Result<icu::UnicodeSet> TakeEscape(bool in_class);
  // After `[`, up to and with `]`.
  Result<icu::UnicodeSet> TakeClass(bool fold_case);

 private:
  std::optional<icu::UnicodeSet> NamedSet(char letter) const;
  std::optional<uint32_t> ControlCharacter(char letter) const;
  Result<uint32_t> TakeHex(size_t least, size_t most);
  Result<uint32_t> TakeBracedHex();
  Result<uint32_t> TakeUnicodeEscape();
  Result<uint32_t> TakeOctal(char first);
  Result<uint32_t> TakeDigitEscape(char digit);
  Result<uint32_t> TakeCharacterEscape(char letter, bool in_class);
  Result<icu::UnicodeSet> TakeProperty(bool negative);
  Result<icu::UnicodeSet> TakePosixClass();
  Result<icu::UnicodeSet> TakeClassAtom();
  Status Error(std::string_view what) const;

  std::string_view pattern_;
  RegexDialect dialect_;
  size_t offset_ = 0;
  std::unordered_map<std::string, icu::UnicodeSet> properties_;  // looked up so far
};

// Adds what differs from a member by case alone (simple case folding).
void FoldCase(icu::UnicodeSet* set);
icu::UnicodeSet OneCharacter(uint32_t code_point);
// What `.` stands for.
icu::UnicodeSet DotSet(RegexDialect dialect, bool with_newline);

}  // namespace thalweg::grammar
