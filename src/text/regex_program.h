// The regular expressions of tokenizer.json as a small program over character sets. Understood is
// what splits of byte-level BPE tokenizers use, with Oniguruma's meaning: literals, classes,
// \p{..} \s \d \w, groups, (?i:..), alternatives, greedy and lazy quantifiers, and lookahead of one
// character, (?!\S). Anything else is an error, never a guess.
#pragma once

#include <unicode/uniset.h>

#include <string_view>
#include <vector>

#include "base/status.h"

namespace thalweg::text {

struct RegexInst {
  enum class Op {
    kSet,      // one character of sets[a], then the next instruction
    kFork,     // try instruction a, then b
    kJump,     // instruction a
    kLookIn,   // the next character must be in sets[a]; the end is not
    kLookOut,  // the next character must not be in sets[a]; the end is not either
    kMatch,
  };
  Op op = Op::kMatch;
  int a = 0;
  int b = 0;
};

struct RegexProgram {
  std::vector<icu::UnicodeSet> sets;
  std::vector<RegexInst> code;  // starts at 0
};

inline constexpr size_t kMaxRegexBytes = 4096;
inline constexpr size_t kMaxRegexSets = 256;  // different ones
inline constexpr int kMaxRegexDepth = 50;     // groups in groups
inline constexpr int kMaxRegexCode = 4096;    // instructions
inline constexpr int kMaxRegexRepeat = 1000;  // in {m,n}

// Compiles `pattern`; a pattern that matches the empty text is an error.
Result<RegexProgram> CompileRegex(std::string_view pattern);

// `literal` with every character that means something escaped.
std::string EscapeRegex(std::string_view literal);

}  // namespace thalweg::text
