// A grammar as it was written: what both notations are read into before names are resolved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "grammar/regex_arena.h"

namespace thalweg::grammar {

struct EbnfNode {
  enum class Kind : uint8_t {
    kRegex,     // regex: a literal, a class, a pattern
    kName,      // name: of a rule or terminal
    kSequence,  // children
    kChoice,    // children
    kRepeat,    // children[0], min to max times
    kExcept,    // children[0] but not children[1]; both regular
  };
  Kind kind = Kind::kSequence;
  RegexId regex = kEmptyString;
  std::string name = {};
  int64_t min = 0;
  int64_t max = 0;    // < 0: without limit
  size_t offset = 0;  // in the text, for messages
  std::vector<EbnfNode> children = {};
};

struct EbnfRule {
  std::string name = {};
  bool terminal = false;  // Lark's capitals: regular, and nothing is ignored inside
  size_t offset = 0;
  EbnfNode body = {};
};

struct EbnfTree {
  std::vector<EbnfRule> rules = {};
  std::vector<EbnfNode> ignored = {};  // what may stand between two terminals (%ignore)
  std::string start = {};              // the name that starts where there is such a rule
};

}  // namespace thalweg::grammar
