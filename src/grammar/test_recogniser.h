// For tests: whether rules have a text, worked out from their definition alone, slowly. It shares
// with the engine the expressions of the terminals and nothing else.
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/rules.h"

namespace thalweg::grammar {

class TestRecogniser {
 public:
  TestRecogniser(Rules* rules, std::string_view text) : rules_(*rules), text_(text) {}

  bool Accepts() {
    Ask(rules_.start(), 0);
    // Ends of a rule from a position grow until nothing changes: recursion of every kind is alike.
    do {
      changed_ = false;
      for (size_t i = 0; i < asked_.size(); ++i) Improve(asked_[i].first, asked_[i].second);
    } while (changed_);
    return ends_[{rules_.start(), 0}].contains(text_.size());
  }

 private:
  using Ends = std::set<size_t>;

  const Ends& Ask(int32_t rule, size_t at) {
    const auto [entry, fresh] = ends_.try_emplace({rule, at});
    if (fresh) {
      asked_.emplace_back(rule, at);
      changed_ = true;
    }
    return entry->second;
  }

  void Improve(int32_t rule, size_t at) {
    for (const auto& alternative : rules_.rules()[static_cast<size_t>(rule)].alternatives) {
      Ends reached = {at};
      for (const Symbol& symbol : alternative) {
        Ends next;
        for (const size_t from : reached) {
          const Ends& ends = EndsOf(symbol, from);
          next.insert(ends.begin(), ends.end());
        }
        reached = std::move(next);
      }
      Ends& known = ends_[{rule, at}];
      const size_t before = known.size();
      known.insert(reached.begin(), reached.end());
      changed_ |= known.size() != before;
    }
  }

  const Ends& EndsOf(const Symbol& symbol, size_t from) {
    if (symbol.kind == Symbol::Kind::kRule) return Ask(symbol.id, from);
    const auto [entry, fresh] = terminals_.try_emplace({symbol.id, from});
    if (!fresh || symbol.kind == Symbol::Kind::kToken) return entry->second;
    RegexId left = symbol.id;
    for (size_t at = from;; ++at) {
      if (rules_.regexes().Nullable(left)) entry->second.insert(at);
      if (at == text_.size() || left == kNothing) break;
      left = rules_.regexes().Derivative(left, static_cast<uint8_t>(text_[at]));
    }
    return entry->second;
  }

  Rules& rules_;
  std::string_view text_;
  std::map<std::pair<int32_t, size_t>, Ends> ends_, terminals_;
  std::vector<std::pair<int32_t, size_t>> asked_;
  bool changed_ = false;
};

}  // namespace thalweg::grammar
