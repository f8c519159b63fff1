#include "grammar/rules.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace thalweg::grammar {
namespace {

bool IsRegex(const Symbol& symbol) { return symbol.kind == Symbol::Kind::kRegex; }

bool IsEmptyString(const Symbol& symbol) { return IsRegex(symbol) && symbol.id == kEmptyString; }

}  // namespace

int32_t Rules::NewRule(std::string name) {
  rules_.push_back({std::move(name), {}});
  return static_cast<int32_t>(rules_.size()) - 1;
}

void Rules::AddAlternative(int32_t rule, std::vector<Symbol> symbols) {
  rules_[static_cast<size_t>(rule)].alternatives.push_back(std::move(symbols));
}

std::vector<Symbol> Rules::Joined(std::span<const Symbol> parts) {
  std::vector<Symbol> joined;
  std::vector<RegexId> run;  // of neighbours that are regular
  const auto end_run = [&] {
    if (!run.empty()) joined.push_back(Regex(regexes_.Concat(run)));
    run.clear();
  };
  for (const Symbol& part : parts) {
    if (IsRegex(part)) {
      run.push_back(part.id);
    } else {
      end_run();
      joined.push_back(part);
    }
  }
  end_run();
  std::erase_if(joined, IsEmptyString);
  return joined;
}

Symbol Rules::Sequence(std::span<const Symbol> parts, std::string name) {
  std::vector<Symbol> joined = Joined(parts);
  if (joined.empty()) return Regex(kEmptyString);
  if (joined.size() == 1) return joined[0];
  const int32_t rule = NewRule(std::move(name));
  AddAlternative(rule, std::move(joined));
  return Of(rule);
}

Symbol Rules::Choice(std::span<const Symbol> choices, std::string name) {
  std::vector<RegexId> regular;
  std::vector<Symbol> others;
  for (const Symbol& choice : choices) {
    if (IsRegex(choice)) {
      regular.push_back(choice.id);
    } else if (std::ranges::find(others, choice) == others.end()) {
      others.push_back(choice);
    }
  }
  const RegexId either = regexes_.Either(regular);
  if (others.empty()) return Regex(either);
  if (either != kNothing) others.push_back(Regex(either));
  if (others.size() == 1) return others[0];
  const int32_t rule = NewRule(std::move(name));
  for (const Symbol& other : others) {
    AddAlternative(rule, IsEmptyString(other) ? std::vector<Symbol>{} : std::vector{other});
  }
  return Of(rule);
}

Symbol Rules::Optional(Symbol of) {
  const Symbol choices[] = {of, Regex(kEmptyString)};
  return Choice(choices, "optional");
}

// Twice what was before, again and again: powers[k] is 2^k times.
Symbol Rules::Power(std::vector<Symbol>* powers, size_t k) {
  while (powers->size() <= k) {
    const Symbol twice[] = {powers->back(), powers->back()};
    powers->push_back(Sequence(twice, "times"));
  }
  return (*powers)[k];
}

// `times` in a row, by the binary digits of the count.
std::vector<Symbol> Rules::Times(std::vector<Symbol>* powers, int64_t times) {
  std::vector<Symbol> parts;
  for (size_t k = 0; times >> k > 0; ++k) {
    if ((times >> k & 1) != 0) parts.push_back(Power(powers, k));
  }
  return parts;
}

// 0 to `times` in a row: choices of the powers below 2^k count to 2^k - 1, and the rest of `times`,
// which is no more than that, is there or not.
std::vector<Symbol> Rules::UpTo(std::vector<Symbol>* powers, int64_t times) {
  std::vector<Symbol> parts;
  int64_t counted = 0;
  for (size_t k = 0; counted + (int64_t{1} << k) <= times; ++k) {
    parts.push_back(Optional(Power(powers, k)));
    counted += int64_t{1} << k;
  }
  if (counted < times) parts.push_back(Optional(Sequence(Times(powers, times - counted), "times")));
  return parts;
}

// Left-recursive: rule = start | rule next.
Symbol Rules::Loop(Symbol start, Symbol next, const Symbol* separator) {
  const int32_t rule = NewRule("repeat");
  AddAlternative(rule, IsEmptyString(start) ? std::vector<Symbol>{} : std::vector{start});
  std::vector<Symbol> step = {Of(rule)};
  if (separator != nullptr) step.push_back(*separator);
  step.push_back(next);
  AddAlternative(rule, std::move(step));
  return Of(rule);
}

Symbol Rules::RepeatRegular(RegexId of, int64_t min, int64_t max, const Symbol* separator) {
  if (separator == nullptr) return Regex(regexes_.Repeat(of, min, max));
  if (max == 0) return Regex(kEmptyString);
  const RegexId next = regexes_.Concat(separator->id, of);
  const int64_t more = max < 0 ? -1 : max - 1;
  const RegexId tail = regexes_.Repeat(next, std::max<int64_t>(min - 1, 0), more);
  const RegexId all = regexes_.Concat(of, tail);
  return Regex(min == 0 ? regexes_.Either(all, kEmptyString) : all);
}

Symbol Rules::Repeat(Symbol of, int64_t min, int64_t max, const Symbol* separator) {
  TW_CHECK(min >= 0);
  if (max >= 0 && max < min) return Choice({});
  if (max == 0) return Regex(kEmptyString);
  if (IsRegex(of) && (separator == nullptr || IsRegex(*separator))) {
    return RepeatRegular(of.id, min, max, separator);
  }
  if (min == 0 && (separator != nullptr || max > 0)) {
    return Optional(Repeat(of, 1, max, separator));
  }
  Symbol next = of;
  if (separator != nullptr) {
    const Symbol parts[] = {*separator, of};
    next = Sequence(parts, "next");
  }
  std::vector<Symbol> powers = {next};
  std::vector<Symbol> parts;
  if (min > 0) {
    parts = Times(&powers, min - 1);
    parts.insert(parts.begin(), of);
  }
  if (max < 0) return Loop(Sequence(parts, "first"), of, separator);
  for (const Symbol& part : UpTo(&powers, max - min)) parts.push_back(part);
  return Sequence(parts, "repeat");
}

int64_t Rules::SymbolCount() const {
  int64_t count = 0;
  for (const Rule& rule : rules_) {
    for (const auto& alternative : rule.alternatives) {
      count += 1 + static_cast<int64_t>(alternative.size());
    }
  }
  return count;
}

}  // namespace thalweg::grammar
