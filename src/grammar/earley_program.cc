#include "grammar/earley_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"

namespace thalweg::grammar {
namespace {

// Expressions that may be looked at to learn whether one terminal is empty.
constexpr int64_t kMostStates = 1 << 16;

using Alternative = std::vector<Symbol>;

// The rules of which some alternative consists of symbols that `terminal` accepts and of such
// rules: the least fixpoint, in time linear in the symbols.
class Fixpoint {
 public:
  Fixpoint(const Rules& rules, std::function<bool(const Symbol&)> terminal)
      : terminal_(std::move(terminal)),
        holds_(rules.rules().size()),
        used_by_(rules.rules().size()) {
    for (size_t rule = 0; rule < rules.rules().size(); ++rule) {
      for (const Alternative& alternative : rules.rules()[rule].alternatives) {
        AddAlternative(rule, alternative);
      }
    }
    while (!found_.empty()) Propagate();
  }

  bool Holds(const Symbol& symbol) const {
    if (symbol.kind != Symbol::Kind::kRule) return terminal_(symbol);
    return holds_[static_cast<size_t>(symbol.id)];
  }
  bool Holds(const Alternative& alternative) const {
    return std::all_of(alternative.begin(), alternative.end(),
                       [&](const Symbol& symbol) { return Holds(symbol); });
  }

 private:
  void AddAlternative(size_t rule, const Alternative& alternative) {
    const size_t index = missing_.size();
    missing_.push_back({rule, 0});
    for (const Symbol& symbol : alternative) {
      if (symbol.kind == Symbol::Kind::kRule) {
        used_by_[static_cast<size_t>(symbol.id)].push_back(index);
        ++missing_.back().second;
      } else if (!terminal_(symbol)) {
        ++missing_.back().second;  // for ever
      }
    }
    if (missing_.back().second == 0) Found(rule);
  }

  void Found(size_t rule) {
    if (holds_[rule]) return;
    holds_[rule] = true;
    found_.push_back(rule);
  }

  void Propagate() {
    const size_t rule = found_.back();
    found_.pop_back();
    for (const size_t index : used_by_[rule]) {
      if (--missing_[index].second == 0) Found(missing_[index].first);
    }
  }

  std::function<bool(const Symbol&)> terminal_;
  std::vector<bool> holds_;
  std::vector<std::vector<size_t>> used_by_;         // alternatives, by rule
  std::vector<std::pair<size_t, int64_t>> missing_;  // of alternatives: the rule, symbols left
  std::vector<size_t> found_;
};

}  // namespace

class ProgramMaker {
 public:
  ProgramMaker(Rules* rules, int32_t vocabulary_size)
      : rules_(*rules), vocabulary_size_(vocabulary_size) {}

  Result<Program> Make() {
    TW_CHECK(rules_.start() >= 0 && rules_.start() < static_cast<int32_t>(rules_.rules().size()));
    TW_TRY(LookAtTerminals());
    const Fixpoint productive(rules_, [&](const Symbol& symbol) { return !Empty(symbol); });
    const Fixpoint nullable(rules_, [&](const Symbol& symbol) { return Nullable(symbol); });
    if (!productive.Holds(Rules::Of(rules_.start()))) {
      return base::InvalidArgument("no text can satisfy the constraint: its language is empty");
    }
    AddPositions(productive, nullable);
    for (const auto& starts : starts_) AddFirsts(starts);
    return std::move(program_);
  }

 private:
  Status LookAtTerminals() {
    for (const Rule& rule : rules_.rules()) {
      for (const Alternative& alternative : rule.alternatives) {
        for (const Symbol& symbol : alternative) TW_TRY(LookAt(symbol).WithContext(rule.name));
      }
    }
    return {};
  }

  Status LookAt(const Symbol& symbol) {
    if (symbol.kind == Symbol::Kind::kRule) {
      TW_CHECK(symbol.id >= 0 && static_cast<size_t>(symbol.id) < rules_.rules().size());
    } else if (symbol.kind == Symbol::Kind::kToken) {
      if (symbol.id < 0 || symbol.id >= vocabulary_size_) {
        return base::InvalidArgument(fmt::format("token {} is not in the vocabulary of {} tokens",
                                                 symbol.id, vocabulary_size_));
      }
    } else if (!rules_.regexes().IsNothing(symbol.id, kMostStates)) {
      return base::ResourceExhausted(fmt::format(
          "an expression has more than {} states, and whether any text matches it was not found "
          "out: use smaller intersections or exclusions",
          kMostStates));
    }
    return {};
  }

  bool Empty(const Symbol& symbol) {
    return symbol.kind == Symbol::Kind::kRegex &&
           rules_.regexes().IsNothing(symbol.id, kMostStates) != false;
  }
  bool Nullable(const Symbol& symbol) const {
    return symbol.kind == Symbol::Kind::kRegex && rules_.regexes().Nullable(symbol.id);
  }

  void AddPositions(const Fixpoint& productive, const Fixpoint& nullable) {
    starts_.resize(rules_.rules().size());
    for (size_t rule = 0; rule < rules_.rules().size(); ++rule) {
      for (const Alternative& alternative : rules_.rules()[rule].alternatives) {
        if (!productive.Holds(alternative)) continue;
        starts_[rule].push_back(Count());
        AddAlternative(static_cast<int32_t>(rule), alternative, nullable);
      }
    }
    program_.start_ = Count();
    AddAlternative(static_cast<int32_t>(rules_.rules().size()), {Rules::Of(rules_.start())},
                   nullable);
  }

  int32_t Count() const { return static_cast<int32_t>(program_.positions_.size()); }

  void AddAlternative(int32_t rule, const Alternative& alternative, const Fixpoint& nullable) {
    for (const Symbol& symbol : alternative) {
      const auto kind = static_cast<Position::Kind>(symbol.kind);
      program_.positions_.push_back({kind, nullable.Holds(symbol), symbol.id});
    }
    program_.positions_.push_back({Position::Kind::kEnd, false, rule});
  }

  void AddFirsts(const std::vector<int32_t>& starts) {
    Program::First first = {program_.calls_.size(), 0, program_.terminals_.size(), 0};
    for (const int32_t start : starts) {
      for (int32_t at = start;; ++at) {
        AddFirst(at);
        if (!program_.at(at).nullable) break;
      }
    }
    first.calls = program_.calls_.size() - first.call;
    first.terminals = program_.terminals_.size() - first.terminal;
    program_.firsts_.push_back(first);
  }

  void AddFirst(int32_t at) {
    const Position& position = program_.at(at);
    if (position.kind == Position::Kind::kEnd) return;
    if (position.kind == Position::Kind::kRule) {
      const bool tail = program_.at(at + 1).kind == Position::Kind::kEnd;
      program_.calls_.push_back({position.id, at, tail});
    } else {
      program_.terminals_.push_back(at);
    }
  }

  Rules& rules_;
  int32_t vocabulary_size_;
  Program program_;
  std::vector<std::vector<int32_t>> starts_;  // of the alternatives of each rule
};

static_assert(static_cast<int>(Position::Kind::kRule) == static_cast<int>(Symbol::Kind::kRule));
static_assert(static_cast<int>(Position::Kind::kRegex) == static_cast<int>(Symbol::Kind::kRegex));
static_assert(static_cast<int>(Position::Kind::kToken) == static_cast<int>(Symbol::Kind::kToken));

Result<Program> Program::Make(Rules* rules, int32_t vocabulary_size) {
  return ProgramMaker(rules, vocabulary_size).Make();
}

int64_t Program::bytes() const {
  return static_cast<int64_t>(positions_.size() * sizeof(Position) +
                              firsts_.size() * sizeof(First) + calls_.size() * sizeof(Call) +
                              terminals_.size() * sizeof(int32_t));
}

}  // namespace thalweg::grammar
