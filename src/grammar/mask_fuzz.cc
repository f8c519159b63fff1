// Masks of a grammar and along a text that the input chooses are those of an independent
// recogniser.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "grammar/matcher.h"
#include "grammar/naive_grammar.h"

namespace thalweg::grammar {
namespace {

constexpr int32_t kEnd = 0;
constexpr int32_t kSpecial = 1;
constexpr int kMostSteps = 6;

std::shared_ptr<const Vocabulary> Tokens() {
  std::vector<std::string> bytes = {"", ""};
  const std::string letters = "abcx,\"";
  for (const char a : letters) bytes.emplace_back(1, a);
  for (const char a : letters) {
    for (const char b : letters) bytes.push_back({a, b});
  }
  return Vocabulary::OfBytes(bytes, {.end_tokens = {kEnd}});
}

NaiveText After(NaiveText text, const Vocabulary& vocabulary, int32_t token) {
  if (token == kSpecial) text.push_back(kNaiveToken + kSpecial);
  for (const char c : vocabulary.bytes_of(token)) text.push_back(static_cast<uint8_t>(c));
  return text;
}

// The allowed tokens, each of which has been looked at.
std::vector<int32_t> Check(const NaiveGrammar& grammar, const NaiveText& text, Matcher* matcher,
                           const Vocabulary& vocabulary) {
  std::vector<int32_t> allowed;
  const std::shared_ptr<const Mask> mask = matcher->NextMask().value();
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    const bool has = ((*mask)[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
    const bool expected =
        token == kEnd ? NaiveRecogniser(grammar, text).IsText()
                      : NaiveRecogniser(grammar, After(text, vocabulary, token)).IsBeginning();
    TW_CHECK_EQ(has, expected);
    if (has && token != kEnd) allowed.push_back(token);
  }
  return allowed;
}

void Run(std::string_view input) {
  static const std::shared_ptr<const Vocabulary> vocabulary = Tokens();
  NaiveDraws draws(input);
  const NaiveGrammar grammar = DrawGrammar(&draws, {kSpecial});
  Result<std::shared_ptr<Grammar>> made = Grammar::Create(grammar.ToRules(), vocabulary);
  TW_CHECK_EQ(made.ok(), NaiveRecogniser(grammar, {}).IsBeginning());
  if (!made.ok()) return;
  Matcher matcher(*made);
  NaiveText text;
  for (int step = 0; step < kMostSteps; ++step) {
    const std::vector<int32_t> allowed = Check(grammar, text, &matcher, *vocabulary);
    if (allowed.empty() || draws.empty()) return;
    const int32_t choice = draws.Below(static_cast<int32_t>(allowed.size()));
    const int32_t token = allowed[static_cast<size_t>(choice)];
    TW_CHECK(matcher.Accept(token).value());
    text = After(std::move(text), *vocabulary, token);
  }
}

}  // namespace
}  // namespace thalweg::grammar

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  thalweg::grammar::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
