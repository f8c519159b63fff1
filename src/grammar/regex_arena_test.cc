// Property: an expression has the language that its constructors say, whatever was simplified, and
// its derivatives, classes and emptiness agree with that language. The model is the set of all
// words over {a, b, c} of at most five letters, as bits.
#include "grammar/regex_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/test_draws.h"

namespace thalweg::grammar {
namespace {

constexpr size_t kLetters = 5;  // of the longest word
constexpr size_t kWords = 1 + 3 + 9 + 27 + 81 + 243;
using Language = std::bitset<kWords>;

const std::vector<std::string>& Words() {
  static const std::vector<std::string> words = [] {
    std::vector<std::string> all = {""};
    for (size_t i = 0; all.size() < kWords; ++i) {
      for (const char c : {'a', 'b', 'c'}) all.push_back(all[i] + c);
    }
    all.resize(kWords);
    return all;
  }();
  return words;
}

size_t IndexOf(const std::string& word) {
  static const auto index = [] {
    std::unordered_map<std::string, size_t> map;
    for (size_t i = 0; i < kWords; ++i) map[Words()[i]] = i;
    return map;
  }();
  return index.at(word);
}

Language Joined(const Language& first, const Language& second) {
  Language all;
  for (size_t i = 0; i < kWords; ++i) {
    if (!first[i]) continue;
    for (size_t j = 0; j < kWords; ++j) {
      if (!second[j]) continue;
      const std::string word = Words()[i] + Words()[j];
      if (word.size() > kLetters) break;
      all.set(IndexOf(word));
    }
  }
  return all;
}

Language Repeated(const Language& of, int64_t min, int64_t max) {
  Language power;
  power.set(0);
  Language all;
  const int64_t last = max < 0 ? min + static_cast<int64_t>(kLetters) : max;
  for (int64_t times = 0; times <= last; ++times) {
    if (times >= min) all |= power;
    power = Joined(power, of);
  }
  return all;
}

// An expression and its language, made by the same steps.
struct Made {
  RegexId id;
  Language language;
};

class Maker {
 public:
  Maker(RegexArena* arena, uint64_t seed) : arena_(arena), draws_(seed) {}

  Made Make(int depth) {
    const uint32_t kind = Pick(depth == 0 ? 3 : 11);
    if (kind < 3) return Leaf(kind);
    const Made first = Make(depth - 1);
    if (kind == 3) return {arena_->Not(first.id), ~first.language};
    if (kind < 6) return Counted(first);
    const Made second = Make(depth - 1);
    if (kind < 8) {
      return {arena_->Concat(first.id, second.id), Joined(first.language, second.language)};
    }
    if (kind == 8) {
      return {arena_->Both(first.id, second.id), first.language & second.language};
    }
    const Made third = Make(depth - 1);
    const RegexId ids[] = {first.id, second.id, third.id};
    return {arena_->Either(ids), first.language | second.language | third.language};
  }

 private:
  uint32_t Pick(uint32_t below) { return draws_.Below(below); }

  Made Leaf(uint32_t kind) {
    Language language;
    if (kind == 0) {
      const std::string word = Words()[Pick(kWords / 6)];
      language.set(IndexOf(word));
      return {arena_->Literal(word), language};
    }
    ByteSet set;
    for (const char c : {'a', 'b', 'c'}) {
      if (Pick(2) == 0) continue;
      set.Add(static_cast<uint8_t>(c));
      language.set(IndexOf(std::string(1, c)));
    }
    return {arena_->Bytes(set), language};
  }

  Made Counted(const Made& of) {
    const int64_t min = Pick(3);
    const int64_t max = Pick(2) == 0 ? -1 : min + Pick(3);
    return {arena_->Repeat(of.id, min, max), Repeated(of.language, min, max)};
  }

  RegexArena* arena_;
  Draws draws_;
};

void ExpectLanguage(RegexArena* arena, const Made& made) {
  for (size_t i = 0; i < kWords; ++i) {
    ASSERT_EQ(arena->Matches(made.id, Words()[i]), made.language[i]) << Words()[i];
  }
}

TEST(RegexArena, EveryExpressionHasTheLanguageOfItsConstruction) {
  RegexArena arena;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Maker maker(&arena, seed);
    const Made made = maker.Make(static_cast<int>(1 + seed % 4));
    SCOPED_TRACE(seed);
    ExpectLanguage(&arena, made);
    if (HasFatalFailure()) return;
  }
}

// All derivatives of an expression, at most `most`.
std::vector<RegexId> Closure(RegexArena* arena, RegexId of, size_t most) {
  std::vector<RegexId> states = {of};
  std::unordered_map<RegexId, bool> seen = {{of, true}};
  for (size_t i = 0; i < states.size() && states.size() < most; ++i) {
    const auto classes = arena->ClassesOf(states[i]);
    for (int32_t c = 0; c < classes.count; ++c) {
      const RegexId next =
          arena->Derivative(states[i], classes.representative[static_cast<size_t>(c)]);
      if (seen.emplace(next, true).second) states.push_back(next);
    }
  }
  return states;
}

TEST(RegexArena, BytesOfOneClassHaveOneDerivative) {
  RegexArena arena;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Maker maker(&arena, seed);
    const RegexId id = maker.Make(3).id;
    const auto classes = arena.ClassesOf(id);
    for (int byte = 0; byte < 256; ++byte) {
      const uint8_t c = classes.class_of[static_cast<size_t>(byte)];
      ASSERT_LT(c, classes.count);
      ASSERT_EQ(arena.Derivative(id, static_cast<uint8_t>(byte)),
                arena.Derivative(id, classes.representative[c]));
    }
  }
}

TEST(RegexArena, TheDerivativesOfAnExpressionAreFew) {
  RegexArena arena;
  size_t most = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Maker maker(&arena, seed);
    most = std::max(most, Closure(&arena, maker.Make(3).id, 5000).size());
  }
  EXPECT_LT(most, 2000u);
}

TEST(RegexArena, EmptinessIsThatNoDerivativeIsNullable) {
  RegexArena arena;
  int empty = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Maker maker(&arena, seed);
    const RegexId id = maker.Make(4).id;
    const auto nothing = arena.IsNothing(id, 1000);
    const std::vector<RegexId> states = Closure(&arena, id, 20000);
    if (!nothing || states.size() >= 20000) continue;
    const bool some =
        std::ranges::any_of(states, [&](RegexId state) { return arena.Nullable(state); });
    ASSERT_EQ(*nothing, !some) << seed;
    empty += *nothing && id != kNothing ? 1 : 0;
  }
  EXPECT_GT(empty, 5);  // some were not seen to be empty when they were made
}

TEST(RegexArena, DeterminisedExpressionsKeepTheirLanguage) {
  RegexArena arena;
  int made_nothing = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Maker maker(&arena, seed);
    Made made = maker.Make(4);
    const auto states = arena.Determinise(made.id, 2000);
    if (!states) continue;
    made.id = *states;
    ExpectLanguage(&arena, made);
    ASSERT_FALSE(HasFatalFailure()) << seed;
    EXPECT_EQ(arena.IsNothing(*states, 0), *states == kNothing);
    made_nothing += *states == kNothing ? 1 : 0;
  }
  EXPECT_GT(made_nothing, 5);
  EXPECT_LT(made_nothing, 500);
}

TEST(RegexArena, DeterminisedExpressionsCombineWithOthers) {
  RegexArena arena;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Maker maker(&arena, seed);
    const Made first = maker.Make(3);
    const Made second = maker.Make(3);
    const auto states = arena.Determinise(first.id, 2000);
    if (!states) continue;
    const RegexId both = arena.Both(*states, arena.Not(second.id));
    ExpectLanguage(&arena, {both, first.language & ~second.language});
    const RegexId joined = arena.Concat(*states, second.id);
    ExpectLanguage(&arena, {joined, Joined(first.language, second.language)});
    ASSERT_FALSE(HasFatalFailure()) << seed;
  }
}

TEST(RegexArena, CountedRepetitionStaysSmall) {
  RegexArena arena;
  const RegexId id = arena.Repeat(arena.Literal("ab"), 50000, 100000);
  EXPECT_LT(arena.size(), 20);
  std::string text;
  for (int i = 0; i < 50000; ++i) text += "ab";
  EXPECT_TRUE(arena.Matches(id, text));
  EXPECT_FALSE(arena.Matches(id, text.substr(2)));
  EXPECT_FALSE(arena.Matches(id, text + "a"));
  EXPECT_TRUE(arena.Matches(id, text + "ab"));
}

TEST(RegexArena, OverlappingCountsAreOneState) {
  RegexArena arena;
  const RegexId word = arena.Either(arena.Literal("a"), arena.Literal("aa"));
  const RegexId id = arena.Repeat(word, 0, 200);
  EXPECT_LT(Closure(&arena, id, 100000).size(), 2000u);
}

std::vector<RegexId> Names(RegexArena* arena, int count) {
  std::vector<RegexId> names;
  for (int i = 0; i < count; ++i) {
    names.push_back(arena->Literal("property_" + std::to_string(i * 7919 % 100000)));
  }
  return names;
}

TEST(RegexArena, AThousandNamesAreATrie) {
  RegexArena arena;
  const RegexId names = arena.Either(Names(&arena, 1000));
  EXPECT_LT(arena.size(), 6000);
  EXPECT_TRUE(arena.Matches(names, "property_7919"));
  EXPECT_FALSE(arena.Matches(names, "property_7918"));
  const RegexId others =
      arena.Both(arena.Repeat(arena.Bytes(ByteSet::Range('a', 'z')), 0, -1), arena.Not(names));
  EXPECT_TRUE(arena.Matches(others, "property"));
  EXPECT_EQ(arena.IsNothing(others, 100), false);
}

TEST(RegexArena, WorkHasALimit) {
  RegexArena arena;
  std::vector<RegexId> parts;
  const RegexId a = arena.Repeat(arena.Literal("a"), 0, 1);
  const RegexId either = arena.Repeat(arena.Bytes(ByteSet::Range('a', 'b')), 0, 1);
  for (int i = 0; i < 20000; ++i) parts.push_back(i % 2 == 0 ? a : either);
  const RegexId id = arena.Concat(parts);
  arena.LimitWork(1000000);
  RegexId at = id;
  for (int i = 0; i < 100 && !arena.exhausted(); ++i) at = arena.Derivative(at, 'a');
  EXPECT_TRUE(arena.exhausted());
  EXPECT_EQ(at, kNothing);
  arena.LimitWork(1000);
  EXPECT_FALSE(arena.exhausted());
  EXPECT_TRUE(arena.Matches(arena.Literal("x"), "x"));
}

}  // namespace
}  // namespace thalweg::grammar
