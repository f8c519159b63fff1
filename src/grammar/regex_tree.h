// A regular expression between text and language: what has no assertion inside is a language
// already, the rest waits until what follows it is known.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/regex_syntax.h"

namespace thalweg::grammar {

struct RegexTree {
  enum class Kind : uint8_t {
    kLanguage,   // regex
    kConcat,     // children in order
    kEither,     // children
    kRepeat,     // children[0], min to max times
    kAssertion,  // of the place between two characters
    kLookAhead,  // children[0] matches (or does not, negative) what comes next
  };
  enum class Assertion : uint8_t {
    kTextStart,
    kTextEnd,
    kLineStart,
    kLineEnd,
    kWordBorder,
    kNoWordBorder,
  };
  Kind kind = Kind::kLanguage;
  RegexId regex = kEmptyString;
  Assertion assertion = Assertion::kTextStart;
  bool negative = false;
  int64_t min = 0;
  int64_t max = 0;    // < 0: without limit
  size_t offset = 0;  // in the pattern, for messages
  std::vector<RegexTree> children = {};

  bool plain() const { return kind == Kind::kLanguage; }
};

Result<RegexTree> ParseRegexTree(std::string_view pattern, RegexDialect dialect,
                                 CharacterEncoding encoding, const Limits& limits,
                                 RegexArena* arena);

// "pattern, byte 12: what".
Status RegexError(size_t offset, std::string_view what);
Status RegexUnsupported(size_t offset, std::string_view what);

}  // namespace thalweg::grammar
