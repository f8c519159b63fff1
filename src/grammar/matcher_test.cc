// A matcher is where its accepted tokens lead, however it came there: by one after another, by a
// fork, after taking tokens back, in several threads at once, or after states and masks had to be
// forgotten. Limits are errors that name themselves and change nothing.
#include "grammar/matcher.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/test_draws.h"

namespace thalweg::grammar {
namespace {

constexpr int32_t kEnd = 0;
constexpr int32_t kSpecial = 1;
const std::string kLetters = "ab()[],\"x";

// Tokens 2.. are the letters, and after them all pairs of letters.
std::shared_ptr<const Vocabulary> Letters() {
  std::vector<std::string> bytes = {"", ""};
  for (const char a : kLetters) bytes.emplace_back(1, a);
  for (const char a : kLetters) {
    for (const char b : kLetters) bytes.push_back({a, b});
  }
  return Vocabulary::OfBytes(bytes, {.end_tokens = {kEnd}});
}

int32_t Token(char letter) { return 2 + static_cast<int32_t>(kLetters.find(letter)); }

std::vector<int32_t> Tokens(std::string_view text) {
  std::vector<int32_t> tokens;
  for (const char letter : text) tokens.push_back(Token(letter));
  return tokens;
}

// value: x | ( list ) | [ list ] | <special>; list: | value | list , value
Rules Brackets() {
  Rules rules;
  const int32_t value = rules.NewRule("value");
  const int32_t list = rules.NewRule("list");
  rules.AddAlternative(value, {rules.Literal("x")});
  rules.AddAlternative(value, {rules.Literal("("), Rules::Of(list), rules.Literal(")")});
  rules.AddAlternative(value, {rules.Literal("["), Rules::Of(list), rules.Literal("]")});
  rules.AddAlternative(value, {Rules::Token(kSpecial)});
  rules.AddAlternative(list, {});
  rules.AddAlternative(list, {Rules::Of(value)});
  rules.AddAlternative(list, {Rules::Of(list), rules.Literal(","), Rules::Of(value)});
  rules.set_start(value);
  return rules;
}

std::shared_ptr<Grammar> Make(Rules rules, const Limits& limits = {}) {
  return Grammar::Create(std::move(rules), Letters(), limits).value();
}

Rules OfRegex(const std::function<RegexId(RegexArena*)>& make) {
  Rules rules;
  const int32_t start = rules.NewRule("start");
  rules.AddAlternative(start, {Rules::Regex(make(&rules.regexes()))});
  rules.set_start(start);
  return rules;
}

void AcceptAll(Matcher* matcher, std::string_view text) {
  for (const int32_t token : Tokens(text)) ASSERT_TRUE(matcher->Accept(token).value());
}

std::vector<int32_t> Allowed(Matcher* matcher) {
  std::vector<int32_t> tokens;
  const std::shared_ptr<const Mask> mask = matcher->NextMask().value();
  for (int32_t token = 0; token < static_cast<int32_t>(mask->size()) * 32; ++token) {
    if (((*mask)[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0) {
      tokens.push_back(token);
    }
  }
  return tokens;
}

TEST(Matcher, AnEndIsATokenLikeOthers) {
  Matcher matcher(Make(Brackets()));
  EXPECT_FALSE(matcher.Accept(kEnd).value());
  AcceptAll(&matcher, "(x)");
  EXPECT_TRUE(matcher.can_end());
  EXPECT_TRUE(matcher.must_end());
  EXPECT_EQ(Allowed(&matcher), std::vector{kEnd});
  EXPECT_EQ(matcher.CountAccepted(std::vector{kEnd, kEnd}).value(), 1);
  EXPECT_TRUE(matcher.Accept(kEnd).value());
  EXPECT_TRUE(matcher.ended());
  EXPECT_TRUE(Allowed(&matcher).empty());
  EXPECT_FALSE(matcher.Accept(kEnd).value());
  EXPECT_FALSE(matcher.Accept(Token('x')).value());
  EXPECT_EQ(matcher.accepted(), 4);
  matcher.Rollback(2);
  EXPECT_FALSE(matcher.ended());
  EXPECT_FALSE(matcher.can_end());
  EXPECT_TRUE(matcher.Accept(Token(',')).value());
}

TEST(Matcher, WhatIsNotAllowedChangesNothing) {
  Matcher matcher(Make(Brackets()));
  AcceptAll(&matcher, "([");
  const std::vector<int32_t> allowed = Allowed(&matcher);
  for (const int32_t token : {Token(')'), Token('a'), -1, 1'000'000, kEnd}) {
    EXPECT_FALSE(matcher.Accept(token).value());
    EXPECT_EQ(matcher.CountAccepted(std::vector{token}).value(), 0);
  }
  EXPECT_EQ(matcher.accepted(), 2);
  EXPECT_EQ(Allowed(&matcher), allowed);
}

TEST(Matcher, TokensOfTheirOwnAreNamedOnly) {
  Matcher matcher(Make(Brackets()));
  AcceptAll(&matcher, "(");
  EXPECT_TRUE(matcher.Accept(kSpecial).value());
  AcceptAll(&matcher, ",x)");
  EXPECT_TRUE(matcher.must_end());
}

// Random steps forwards and back, and forks: always as a new matcher that accepts the same tokens.
TEST(Matcher, AnyWayToTheSameTokensIsTheSame) {
  const std::shared_ptr<Grammar> grammar = Make(Brackets());
  Draws draws(1);
  Matcher matcher(grammar);
  std::vector<int32_t> history;
  for (int step = 0; step < 2000; ++step) {
    const std::vector<int32_t> allowed = Allowed(&matcher);
    if (allowed.empty() || draws.Below(4) == 0) {
      const int64_t back = draws.Below(5);
      matcher.Rollback(back);
      history.resize(history.size() - std::min(history.size(), static_cast<size_t>(back)));
    } else {
      history.push_back(allowed[draws.Below(static_cast<uint32_t>(allowed.size()))]);
      ASSERT_TRUE(matcher.Accept(history.back()).value());
    }
    if (draws.Below(8) == 0) matcher = Matcher(matcher);
    Matcher again(grammar);
    ASSERT_EQ(again.CountAccepted(history).value(), static_cast<int64_t>(history.size()));
    for (const int32_t token : history) ASSERT_TRUE(again.Accept(token).value());
    ASSERT_EQ(matcher.accepted(), again.accepted());
    ASSERT_EQ(Allowed(&matcher), Allowed(&again));
    ASSERT_EQ(matcher.can_end(), again.can_end());
  }
}

TEST(Matcher, CountStopsWhereAcceptRefuses) {
  const std::shared_ptr<Grammar> grammar = Make(Brackets());
  Draws draws(2);
  for (int run = 0; run < 500; ++run) {
    std::vector<int32_t> tokens;
    for (uint32_t i = draws.Below(12); i > 0; --i) {
      tokens.push_back(static_cast<int32_t>(draws.Below(draws.Below(2) == 0 ? 92 : 11)));
    }
    Matcher matcher(grammar);
    const int64_t count = matcher.CountAccepted(tokens).value();
    int64_t accepted = 0;
    while (accepted < static_cast<int64_t>(tokens.size()) &&
           matcher.Accept(tokens[static_cast<size_t>(accepted)]).value()) {
      ++accepted;
    }
    ASSERT_EQ(count, accepted);
  }
}

TEST(Matcher, ForcedBytesAreThoseWithoutAChoice) {
  Rules rules;
  const int32_t start = rules.NewRule("start");
  rules.AddAlternative(start, {rules.Literal("(x,"), rules.Literal("a)")});
  rules.AddAlternative(start, {rules.Literal("(x,bb")});
  Matcher matcher(Make(std::move(rules)));
  EXPECT_EQ(matcher.ForcedBytes(100).value(), "(x,");
  EXPECT_EQ(matcher.ForcedBytes(2).value(), "(x");
  AcceptAll(&matcher, "(x,a");
  EXPECT_EQ(matcher.ForcedBytes(100).value(), ")");
  AcceptAll(&matcher, ")");
  EXPECT_EQ(matcher.ForcedBytes(100).value(), "");
}

TEST(Matcher, ATokenIsForcedWhereNothingElseMayCome) {
  Rules rules;
  const int32_t start = rules.NewRule("start");
  const int32_t first = rules.NewRule("first");
  rules.AddAlternative(first, {Rules::Token(3)});
  rules.AddAlternative(start, {Rules::Of(first), rules.Literal("x")});
  rules.AddAlternative(start, {Rules::Token(3), Rules::Token(4)});
  Matcher matcher(Make(std::move(rules)));
  EXPECT_EQ(matcher.ForcedToken().value(), 3);
  ASSERT_TRUE(matcher.Accept(3).value());
  EXPECT_LT(matcher.ForcedToken().value(), 0);  // 4, or "x"
  ASSERT_TRUE(matcher.Accept(4).value());
  EXPECT_LT(matcher.ForcedToken().value(), 0);  // the end
}

TEST(Matcher, AnEmptyLanguageIsAnError) {
  Rules rules;
  const int32_t start = rules.NewRule("start");
  rules.AddAlternative(start, {rules.Literal("x"), Rules::Of(start)});
  EXPECT_EQ(Grammar::Create(std::move(rules), Letters()).status().code(),
            base::Code::kInvalidArgument);
  const auto both = [](RegexArena* arena) {
    return arena->Both(arena->Literal("a"), arena->Literal("b"));
  };
  EXPECT_FALSE(Grammar::Create(OfRegex(both), Letters()).ok());
}

TEST(Matcher, ATokenBeyondTheVocabularyIsAnError) {
  Rules rules;
  const int32_t start = rules.NewRule("start");
  rules.AddAlternative(start, {Rules::Token(100'000)});
  const Status status = Grammar::Create(std::move(rules), Letters()).status();
  EXPECT_EQ(status.code(), base::Code::kInvalidArgument);
  EXPECT_NE(status.message().find("100000"), std::string::npos);
}

// Lists and right recursion of any length come back to the same few states.
TEST(Matcher, RecursionAtAnEndNeedsNoNewStates) {
  Rules left = Brackets();
  Rules right;
  const int32_t start = right.NewRule("start");
  const int32_t more = right.NewRule("more");
  right.AddAlternative(start, {right.Literal("x"), Rules::Of(more)});
  right.AddAlternative(more, {});
  right.AddAlternative(more, {right.Literal(","), Rules::Of(start)});
  right.AddAlternative(more, {right.Literal(",,"), Rules::Of(start)});
  right.set_start(start);
  for (const bool is_left : {true, false}) {
    const std::shared_ptr<Grammar> grammar = Make(is_left ? std::move(left) : std::move(right));
    Matcher matcher(grammar);
    AcceptAll(&matcher, is_left ? "(x,x,x" : "x,x,x");
    const int64_t states = grammar->automaton().states();
    for (int i = 0; i < 1000; ++i) AcceptAll(&matcher, ",x");
    EXPECT_EQ(grammar->automaton().states(), states);
  }
}

// Every text of brackets is a state of its own: a budget for few of them must forget many.
TEST(Matcher, ForgottenStatesComeBackTheSame) {
  Limits small;
  small.state_bytes = 400'000;
  small.mask_bytes = 2'000;
  const std::shared_ptr<Grammar> grammar = Make(Brackets(), small);
  const std::shared_ptr<Grammar> ample = Make(Brackets());
  Matcher kept(grammar);
  AcceptAll(&kept, "([(");
  const std::vector<int32_t> allowed = Allowed(&kept);
  Draws draws(3);
  int64_t most = 0;
  for (int run = 0; run < 300; ++run) {
    Matcher matcher(grammar);
    Matcher other(ample);
    for (int step = 0; step < 12; ++step) {
      const int32_t token = Token(draws.Below(2) == 0 ? '(' : '[');
      ASSERT_TRUE(matcher.Accept(token).value());
      ASSERT_TRUE(other.Accept(token).value());
    }
    ASSERT_EQ(Allowed(&matcher), Allowed(&other));
    most = std::max(most, grammar->automaton().states());
  }
  EXPECT_GT(ample->automaton().states(), most);
  EXPECT_LT(grammar->bytes(), 1'000'000);
  EXPECT_EQ(Allowed(&kept), allowed);
  AcceptAll(&kept, ")])");
  EXPECT_TRUE(kept.must_end());
}

TEST(Matcher, StatesBeyondTheBudgetAreAnError) {
  Limits small;
  small.state_bytes = 400'000;
  const std::shared_ptr<Grammar> grammar = Make(Brackets(), small);
  Matcher matcher(grammar);
  Status failure;
  while (failure.ok() && matcher.accepted() < 1'000'000) {
    const Result<bool> accepted = matcher.Accept(Token('('));
    if (!accepted.ok()) failure = accepted.status();
  }
  EXPECT_EQ(failure.code(), base::Code::kResourceExhausted);
  EXPECT_NE(failure.message().find("state_bytes"), std::string::npos);
  const int64_t accepted = matcher.accepted();
  EXPECT_FALSE(matcher.Accept(Token('(')).ok());
  EXPECT_EQ(matcher.accepted(), accepted);
  matcher.Rollback(accepted - 2);  // what it kept is free now
  AcceptAll(&matcher, "x))");
  EXPECT_TRUE(matcher.must_end());
}

TEST(Matcher, TimeBeyondTheLimitIsAnError) {
  Limits hasty;
  hasty.mask_seconds = 0;
  const std::shared_ptr<Grammar> grammar = Make(Brackets(), hasty);
  Matcher matcher(grammar);
  Status failure;
  while (failure.ok() && matcher.accepted() < 10'000) {
    const Result<bool> accepted = matcher.Accept(Token('('));
    if (!accepted.ok()) failure = accepted.status();
  }
  EXPECT_EQ(failure.code(), base::Code::kResourceExhausted);
  EXPECT_NE(failure.message().find("mask_seconds"), std::string::npos);
}

TEST(Matcher, ThreadsShareAGrammar) {
  Limits small;
  small.state_bytes = 400'000;
  const std::shared_ptr<Grammar> grammar = Make(Brackets(), small);
  const std::shared_ptr<Grammar> ample = Make(Brackets());
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      Draws draws(t);
      for (int run = 0; run < 40; ++run) {
        Matcher matcher(grammar);
        Matcher other(ample);
        for (int step = 0; step < 12; ++step) {
          const int32_t token = Token("([x,"[draws.Below(4)]);
          if (matcher.Accept(token).value() != other.Accept(token).value()) ++wrong[t];
          if (*matcher.NextMask().value() != *other.NextMask().value()) ++wrong[t];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

}  // namespace
}  // namespace thalweg::grammar
