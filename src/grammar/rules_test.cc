// Property: repetitions, sequences and choices of rules count exactly, with few rules, and regular
// parts stay regular expressions.
#include "grammar/rules.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace thalweg::grammar {
namespace {

// How many `x` a symbol can stand for, up to 64, as bits; rules that call themselves are followed
// until nothing changes. The only regexes in these rules are "x", "," and the empty string.
class Counts {
 public:
  explicit Counts(Rules* rules) : rules_(rules), known_(rules->rules().size(), 0) {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < known_.size(); ++i) {
        const uint64_t now = OfRule(rules->rules()[i]);
        changed |= now != known_[i];
        known_[i] = now;
      }
    }
  }

  uint64_t Of(const Symbol& symbol) const {
    if (symbol.kind == Symbol::Kind::kRule) return known_[static_cast<size_t>(symbol.id)];
    uint64_t counts = 0;
    std::string text;
    for (int n = 0; n < 64; ++n, text += 'x') {
      if (rules_->regexes().Matches(symbol.id, text)) counts |= uint64_t{1} << n;
    }
    return counts;
  }

 private:
  static uint64_t Sum(uint64_t a, uint64_t b) {
    uint64_t sum = 0;
    for (int n = 0; n < 64; ++n) sum |= (a >> n & 1) != 0 ? b << n : 0;
    return sum;
  }
  uint64_t OfRule(const Rule& rule) const {
    uint64_t all = 0;
    for (const auto& alternative : rule.alternatives) {
      uint64_t counts = 1;
      for (const Symbol& symbol : alternative) counts = Sum(counts, Of(symbol));
      all |= counts;
    }
    return all;
  }

  Rules* rules_;
  std::vector<uint64_t> known_;
};

uint64_t Range(int64_t min, int64_t max) {
  uint64_t counts = 0;
  for (int64_t n = min; n < 64 && (max < 0 || n <= max); ++n) counts |= uint64_t{1} << n;
  return counts;
}

TEST(Rules, RepeatedRulesCountExactly) {
  for (int64_t min = 0; min < 20; ++min) {
    for (int64_t max = -1; max < 40; ++max) {
      Rules rules;
      const int32_t x = rules.NewRule("x");
      rules.AddAlternative(x, {rules.Literal("x")});
      const Symbol all = rules.Repeat(Rules::Of(x), min, max);
      const uint64_t want = max >= 0 && max < min ? 0 : Range(min, max);
      ASSERT_EQ(Counts(&rules).Of(all), want) << min << " " << max;
    }
  }
}

TEST(Rules, SeparatorsStandBetweenElementsOnly) {
  Rules rules;
  const Symbol separator = rules.Literal(",");
  for (const auto& [min, max] : {std::pair{0, -1}, {0, 3}, {1, -1}, {2, 5}, {3, 3}, {0, 0}}) {
    const Symbol list = rules.Repeat(rules.Literal("x"), min, max, &separator);
    ASSERT_EQ(list.kind, Symbol::Kind::kRegex);
    std::string text;
    for (int n = 0; n < 8; ++n) {
      EXPECT_EQ(rules.regexes().Matches(list.id, text), n >= min && (max < 0 || n <= max)) << text;
      EXPECT_FALSE(rules.regexes().Matches(list.id, text + ","));
      text += n == 0 ? "x" : ",x";
    }
  }
}

TEST(Rules, ListsOfRulesWithSeparatorsCountExactly) {
  for (const auto& [min, max] : {std::pair{0, -1}, {0, 3}, {1, -1}, {2, 5}, {3, 3}, {4, -1}}) {
    Rules rules;
    const int32_t x = rules.NewRule("x");
    rules.AddAlternative(x, {rules.Literal("x")});
    const int32_t none = rules.NewRule("none");
    rules.AddAlternative(none, {});
    const Symbol separator = Rules::Of(none);
    const Symbol list = rules.Repeat(Rules::Of(x), min, max, &separator);
    EXPECT_EQ(Counts(&rules).Of(list), Range(min, max)) << min << " " << max;
  }
}

TEST(Rules, HugeCountsNeedFewRules) {
  Rules rules;
  const int32_t x = rules.NewRule("x");
  rules.AddAlternative(x, {rules.Literal("x")});
  rules.Repeat(Rules::Of(x), 77777, 99999);
  EXPECT_LT(rules.rules().size(), 120u);
  EXPECT_LT(rules.SymbolCount(), 400);
}

TEST(Rules, RegularPartsStayOneExpression) {
  Rules rules;
  const Symbol parts[] = {rules.Literal("a"), rules.Literal("b")};
  EXPECT_EQ(rules.Sequence(parts), rules.Literal("ab"));
  EXPECT_EQ(rules.Choice(parts).kind, Symbol::Kind::kRegex);
  EXPECT_EQ(rules.Optional(parts[0]).kind, Symbol::Kind::kRegex);
  EXPECT_EQ(rules.Choice({}).id, kNothing);
  EXPECT_EQ(rules.Sequence({}).id, kEmptyString);
  EXPECT_TRUE(rules.rules().empty());
}

TEST(Rules, TokensAreNeverPartOfAnExpression) {
  Rules rules;
  const Symbol parts[] = {rules.Literal("a"), rules.Literal("b"), Rules::Token(7),
                          rules.Literal("c")};
  const Symbol all = rules.Sequence(parts);
  ASSERT_EQ(all.kind, Symbol::Kind::kRule);
  const auto& alternatives = rules.rules()[static_cast<size_t>(all.id)].alternatives;
  ASSERT_EQ(alternatives.size(), 1u);
  const std::vector<Symbol> want = {rules.Literal("ab"), Rules::Token(7), rules.Literal("c")};
  EXPECT_EQ(alternatives[0], want);
}

}  // namespace
}  // namespace thalweg::grammar
