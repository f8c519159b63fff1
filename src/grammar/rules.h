// The form that every kind of constraint is compiled to: a context-free grammar whose terminals are
// regular languages over bytes, and single tokens. The language is that of the bytes: nothing is
// lexed greedily, ambiguity is harmless.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/regex_arena.h"

namespace thalweg::grammar {

struct Symbol {
  enum class Kind : uint8_t {
    kRule,   // id: a rule
    kRegex,  // id: RegexId of Rules::regexes
    kToken,  // id: a token of the vocabulary that is taken as a whole: a special one
  };
  Kind kind = Kind::kRule;
  int32_t id = 0;
  bool operator==(const Symbol&) const = default;
};

struct Rule {
  std::string name = {};                               // for messages
  std::vector<std::vector<Symbol>> alternatives = {};  // none: the empty language
};

// A rule may be recursive in any way (left, right, hidden, nullable). Left recursion is the
// cheapest for lists: the state after every element is then the same one.
class Rules {
 public:
  RegexArena& regexes() { return regexes_; }
  const std::vector<Rule>& rules() const { return rules_; }
  int32_t start() const { return start_; }
  void set_start(int32_t rule) { start_ = rule; }

  int32_t NewRule(std::string name);
  void AddAlternative(int32_t rule, std::vector<Symbol> symbols);

  static Symbol Of(int32_t rule) { return {Symbol::Kind::kRule, rule}; }
  static Symbol Regex(RegexId regex) { return {Symbol::Kind::kRegex, regex}; }
  static Symbol Token(int32_t token) { return {Symbol::Kind::kToken, token}; }
  Symbol Literal(std::string_view bytes) { return Regex(regexes_.Literal(bytes)); }
  // New rules, where one is needed: what has only kRegex parts stays one kRegex symbol. Choice of
  // none is the empty language, Sequence of none the empty string.
  Symbol Sequence(std::span<const Symbol> parts, std::string name = "sequence");
  Symbol Choice(std::span<const Symbol> choices, std::string name = "choice");
  Symbol Optional(Symbol of);
  // min to max times (max < 0: without limit), `separator` between two where there is one. The
  // number of rules is O(log max) or O(min + max), never more; unlimited tails are left-recursive.
  Symbol Repeat(Symbol of, int64_t min, int64_t max, const Symbol* separator = nullptr);

  // `parts` with neighbours that are regular made one expression, and without empty strings.
  std::vector<Symbol> Joined(std::span<const Symbol> parts);

  int64_t SymbolCount() const;  // of all alternatives

 private:
  Symbol Power(std::vector<Symbol>* powers, size_t k);
  std::vector<Symbol> Times(std::vector<Symbol>* powers, int64_t times);
  std::vector<Symbol> UpTo(std::vector<Symbol>* powers, int64_t times);
  Symbol Loop(Symbol start, Symbol next, const Symbol* separator);
  Symbol RepeatRegular(RegexId of, int64_t min, int64_t max, const Symbol* separator);

  RegexArena regexes_;
  std::vector<Rule> rules_;
  int32_t start_ = 0;
};

}  // namespace thalweg::grammar
