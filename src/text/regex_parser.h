// The syntax tree of a split pattern (regex_program.h says what is understood).
#pragma once

#include <unicode/uniset.h>

#include <string_view>
#include <vector>

#include "base/status.h"

namespace thalweg::text {

struct RegexNode {
  enum class Kind { kConcat, kAlternate, kRepeat, kSet, kLookIn, kLookOut };
  static constexpr int kNoLimit = -1;

  Kind kind = Kind::kConcat;
  std::vector<RegexNode> children;
  int set = 0;  // kSet, kLook*: index into RegexTree::sets
  int min = 0;  // kRepeat
  int max = 0;  // kRepeat; kNoLimit for none
  bool lazy = false;
};

struct RegexTree {
  std::vector<icu::UnicodeSet> sets;
  RegexNode root;
};

Result<RegexTree> ParseRegex(std::string_view pattern);

}  // namespace thalweg::text
