// Rules as the parser reads them: alternatives flattened to runs of positions, without rules whose
// language is empty, and what each rule can begin with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "grammar/limits.h"
#include "grammar/rules.h"

namespace thalweg::grammar {

// A place in an alternative. The next one is at the next index; the last one is kEnd.
struct Position {
  enum class Kind : uint8_t { kRule, kRegex, kToken, kEnd };
  Kind kind;
  bool nullable;  // the symbol derives the empty string; false for kEnd
  int32_t id;     // of the rule, regex or token; kEnd: of the rule that ends here
};

class Program {
 public:
  // A rule that another one can begin with: at `position`; tail: nothing follows it there.
  struct Call {
    int32_t rule;
    int32_t position;
    bool tail;
  };

  // kInvalidArgument: no text is in the language, or a token that the vocabulary does not have.
  static Result<Program> Make(Rules* rules, int32_t vocabulary_size);

  const Position& at(int32_t position) const { return positions_[static_cast<size_t>(position)]; }
  int32_t rule_count() const { return static_cast<int32_t>(firsts_.size()); }
  // What an alternative of the rule can begin with, past nullable symbols: rules, and the positions
  // of regexes and tokens.
  std::span<const Call> CallsOf(int32_t rule) const {
    const First& first = firsts_[static_cast<size_t>(rule)];
    return std::span(calls_).subspan(first.call, first.calls);
  }
  std::span<const int32_t> TerminalsOf(int32_t rule) const {
    const First& first = firsts_[static_cast<size_t>(rule)];
    return std::span(terminals_).subspan(first.terminal, first.terminals);
  }
  // The position before the start symbol, in an alternative of its own.
  int32_t start() const { return start_; }
  int64_t bytes() const;

 private:
  friend class ProgramMaker;
  struct First {
    size_t call, calls;
    size_t terminal, terminals;
  };
  std::vector<Position> positions_;
  std::vector<First> firsts_;
  std::vector<Call> calls_;
  std::vector<int32_t> terminals_;
  int32_t start_ = 0;
};

}  // namespace thalweg::grammar
