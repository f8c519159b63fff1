// A mask holds exactly the tokens with a valid continuation, whichever way it was made; accepting,
// counting, taking back and forking agree with it. Shown by brute force against an independent
// recogniser on grammars drawn at random, and against the plain walk on the tokens of a model.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/matcher.h"
#include "grammar/naive_grammar.h"
#include "grammar/test_draws.h"

namespace thalweg::grammar {
namespace {

constexpr int32_t kSpecial = 0;  // without bytes
constexpr int32_t kEnd = 1;      // without bytes, ends texts
constexpr int32_t kBoth = 2;     // "ab" as bytes, and a token of its own

std::string BytesFrom(Draws* draws, size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(draws->Below(256)));
  return bytes;
}

uint32_t IndexIn(size_t size, Draws* draws) { return draws->Below(static_cast<uint32_t>(size)); }

// All strings of up to 3 letters of a small alphabet, and some longer ones.
std::shared_ptr<const Vocabulary> SmallVocabulary(Draws* draws) {
  std::vector<std::string> bytes = {"", "", "ab"};
  const std::string alphabet = "abcx,\"";
  std::vector<std::string> shorter = {""};
  for (int length = 1; length <= 3; ++length) {
    std::vector<std::string> longer;
    for (const std::string& text : shorter) {
      for (const char c : alphabet.substr(0, length == 3 ? 3 : 6)) longer.push_back(text + c);
    }
    bytes.insert(bytes.end(), longer.begin(), longer.end());
    shorter = std::move(longer);
  }
  for (int i = 0; i < 12; ++i) {
    std::string text;
    const uint32_t length = i == 0 ? 40 : 4 + draws->Below(5);
    for (uint32_t j = 0; j < length; ++j) text += alphabet[draws->Below(i % 2 == 0 ? 6 : 3)];
    bytes.push_back(text);
  }
  return Vocabulary::OfBytes(
      bytes, {.size = static_cast<int32_t>(bytes.size()) + 5, .end_tokens = {kEnd}});
}

bool Has(const Mask& mask, int32_t token) {
  return (mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
}

// The texts that a sequence of tokens may stand for: more than one when a token has bytes and is
// one of its own.
using Readings = std::vector<NaiveText>;

Readings After(const Readings& readings, const Vocabulary& vocabulary, int32_t token) {
  Readings after;
  for (const NaiveText& text : readings) {
    if (!vocabulary.bytes_of(token).empty()) {
      after.push_back(text);
      for (const char c : vocabulary.bytes_of(token)) {
        after.back().push_back(static_cast<uint8_t>(c));
      }
    }
    after.push_back(text);
    after.back().push_back(kNaiveToken + token);
  }
  std::erase_if(after, [](const NaiveText& text) { return text.size() > 60; });
  return after;
}

bool AnyBegins(const NaiveGrammar& grammar, const Readings& readings) {
  return std::any_of(readings.begin(), readings.end(), [&](const NaiveText& text) {
    return NaiveRecogniser(grammar, text).IsBeginning();
  });
}

bool AnyIsText(const NaiveGrammar& grammar, const Readings& readings) {
  return std::any_of(readings.begin(), readings.end(), [&](const NaiveText& text) {
    return NaiveRecogniser(grammar, text).IsText();
  });
}

void ExpectMask(const NaiveGrammar& grammar, const Readings& readings, Matcher* matcher,
                const Vocabulary& vocabulary) {
  const std::shared_ptr<const Mask> mask = matcher->NextMask().value();
  const bool can_end = AnyIsText(grammar, readings);
  EXPECT_EQ(matcher->can_end(), can_end);
  int64_t allowed = 0;
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    const bool expected =
        (token == kEnd && can_end) || AnyBegins(grammar, After(readings, vocabulary, token));
    ASSERT_EQ(Has(*mask, token), expected)
        << "token " << token << " '" << vocabulary.bytes_of(token) << "'";
    EXPECT_EQ(matcher->CountAccepted(std::vector{token}).value(), expected ? 1 : 0);
    if (token != kEnd && expected) ++allowed;
  }
  EXPECT_EQ(matcher->must_end(), can_end && allowed == 0);
}

// Walks at random through one grammar.
void WalkThrough(const NaiveGrammar& grammar, std::shared_ptr<const Vocabulary> vocabulary,
                 Draws* draws) {
  Result<std::shared_ptr<Grammar>> made = Grammar::Create(grammar.ToRules(), vocabulary);
  ASSERT_EQ(made.ok(), NaiveRecogniser(grammar, {}).IsBeginning());
  if (!made.ok()) return;
  Matcher matcher(*made);
  Readings readings = {{}};
  for (int step = 0; step < 5; ++step) {
    ExpectMask(grammar, readings, &matcher, *vocabulary);
    if (testing::Test::HasFatalFailure()) return;
    std::vector<int32_t> allowed;
    const std::shared_ptr<const Mask> mask = matcher.NextMask().value();
    for (int32_t token = 0; token < vocabulary->size(); ++token) {
      if (token != kEnd && Has(*mask, token) && vocabulary->bytes_of(token).size() < 9) {
        allowed.push_back(token);
      }
    }
    if (allowed.empty()) return;
    const int32_t token = allowed[IndexIn(allowed.size(), draws)];
    ASSERT_TRUE(matcher.Accept(token).value());
    readings = After(readings, *vocabulary, token);
    std::erase_if(readings, [&](const NaiveText& text) { return !AnyBegins(grammar, {text}); });
  }
}

TEST(Masks, AreThoseOfAnIndependentRecogniser) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Draws draws(seed);
    const auto vocabulary = SmallVocabulary(&draws);
    const std::string bytes = BytesFrom(&draws, 200);
    NaiveDraws choices(bytes);
    const NaiveGrammar grammar = DrawGrammar(&choices, {kSpecial, kBoth});
    SCOPED_TRACE("grammar " + std::to_string(seed) + "\n" + grammar.ToString());
    WalkThrough(grammar, vocabulary, &draws);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace thalweg::grammar
