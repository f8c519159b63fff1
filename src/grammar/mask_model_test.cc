// On the tokens of a real model, the shortcuts for alphabets, exceptions and similar states give
// bit for bit the mask of the plain walk over all tokens.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/matcher.h"
#include "grammar/regex_syntax.h"
#include "grammar/test_draws.h"
#include "grammar/vocabulary_trie.h"
#include "text/tokenizer.h"

namespace thalweg::grammar {
namespace {

// Its tokens, and some that few models have: long ones, other scripts, broken characters.
std::shared_ptr<const Vocabulary> ModelTokens() {
  const std::filesystem::path source = THALWEG_SOURCE_DIR;
  const text::Tokenizer tokenizer =
      text::Tokenizer::Load(source / "models/nano/tokenizer.json").value();
  std::vector<std::string> bytes = {""};
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    bytes.emplace_back(tokenizer.IsSpecial(token) ? "" : tokenizer.TokenBytes(token));
  }
  for (const char c : std::string("a- =*z")) {
    for (const size_t length : {28, 29, 30, 31, 32, 40, 100}) {
      bytes.emplace_back(length, c);
      bytes.push_back(std::string(length, c) + "\",");
      bytes.push_back(std::string(length, c) + "/x");
    }
  }
  for (const char* text : {"größe",   "中文",     "、",        "\u00A0",    "\u2028",
                           "\u3000x", "\xE4\xB8", "\xAD\"",    "x\xF0\x9F", "\xF0\x9F\x98\x80",
                           "a\"b",    "\\n\\n",   "\\\"",      "\\u00",     "{\"",
                           "\":",     "\": \"",   "\", \"",    "</",        "be\"",
                           "e\"",     "zing\": ", "ing\": \"", "//",        "a/b/c",
                           "<"}) {
    bytes.emplace_back(text);
  }
  return Vocabulary::OfBytes(std::move(bytes), {.end_tokens = {0}});
}

std::shared_ptr<const Vocabulary> Tokens() {
  static const std::shared_ptr<const Vocabulary> tokens = ModelTokens();
  return tokens;
}

void ExpectPlainMasks(Rules rules, uint64_t seed, int steps) {
  const std::shared_ptr<Grammar> grammar = Grammar::Create(std::move(rules), Tokens()).value();
  Grammar::Automaton& automaton = grammar->automaton();
  Draws draws(seed);
  int32_t state = automaton.start();
  for (int step = 0; step < steps; ++step) {
    const std::shared_ptr<const Mask> mask = automaton.MaskOf(state).value();
    ASSERT_EQ(*mask, *automaton.PlainMaskOf(state).value()) << "after " << step << " tokens";
    std::vector<int32_t> allowed;
    for (int32_t token = 1; token < Tokens()->size(); ++token) {
      if (((*mask)[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0) {
        allowed.push_back(token);
      }
    }
    if (allowed.empty()) return;
    state =
        automaton.Step(state, allowed[draws.Below(static_cast<uint32_t>(allowed.size()))]).value();
    ASSERT_GE(state, 0);
  }
}

RegexId Parse(std::string_view pattern, CharacterEncoding encoding, RegexArena* arena) {
  return ParseRegex(pattern, RegexDialect::kWhole, encoding, {}, arena).value();
}

Rules OfPattern(std::string_view pattern, CharacterEncoding encoding) {
  Rules rules;
  const int32_t start = rules.NewRule("start");
  const Symbol body = Rules::Regex(Parse(pattern, encoding, &rules.regexes()));
  if (encoding == CharacterEncoding::kJsonString) {
    rules.AddAlternative(start, {rules.Literal("\""), body, rules.Literal("\"")});
  } else {
    rules.AddAlternative(start, {body});
  }
  return rules;
}

TEST(ModelMasks, OfPatternsAreThoseOfThePlainWalk) {
  const char* const patterns[] = {".*",
                                  ".{0,7}",
                                  ".{3,40}",
                                  "[a-z]*",
                                  "[a-z]{1,5}[0-9]+",
                                  "[A-Za-z ]*",
                                  "[^/<]{0,50}",
                                  "\\S+",
                                  "[a-z0-9-]{2,63}",
                                  "(a|b|.*z)",
                                  "[^\\n]*<end>",
                                  "[^aeiou]*",
                                  "[\\x20-\\x7e]{1,9}",
                                  "\\w+(\\.\\w+)*@\\w+",
                                  "(?s:.*)"};
  for (const char* pattern : patterns) {
    for (const auto encoding : {CharacterEncoding::kUtf8, CharacterEncoding::kJsonString}) {
      SCOPED_TRACE(pattern);
      for (uint64_t seed = 0; seed < 3; ++seed) {
        ExpectPlainMasks(OfPattern(pattern, encoding), seed, 8);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Objects with these keys, or with any others but these, and texts, lists and objects as values.
Rules Objects(const std::vector<std::string>& keys, bool others_only = false) {
  Rules rules;
  RegexArena& arena = rules.regexes();
  const int32_t value = rules.NewRule("value");
  const int32_t members = rules.NewRule("members");
  const RegexId text = Parse(".*", CharacterEncoding::kJsonString, &arena);
  std::vector<RegexId> known;
  for (const std::string& key : keys) {
    known.push_back(arena.Literal(key));
    if (others_only) continue;
    rules.AddAlternative(members, {rules.Literal("\"" + key + "\": "), Rules::Of(value)});
  }
  const RegexId other = arena.Both(text, arena.Not(arena.Either(known)));
  const RegexId quote = arena.Literal("\"");
  rules.AddAlternative(
      members, {Rules::Regex(arena.Concat(std::vector{quote, other, arena.Literal("\": ")})),
                Rules::Of(value)});
  rules.AddAlternative(members, {Rules::Of(members), rules.Literal(", "), Rules::Of(members)});
  rules.AddAlternative(value, {Rules::Regex(arena.Concat(std::vector{quote, text, quote}))});
  rules.AddAlternative(value, {rules.Literal("{"), Rules::Of(members), rules.Literal("}")});
  rules.AddAlternative(value, {rules.Literal("["), Rules::Of(value), rules.Literal("]")});
  const int32_t start = rules.NewRule("start");
  rules.AddAlternative(start, {rules.Literal("{"), Rules::Of(members), rules.Literal("}")});
  rules.set_start(start);
  return rules;
}

TEST(ModelMasks, OfObjectsAreThoseOfThePlainWalk) {
  const std::vector<std::string> names = {"name", "nation", "id", "a", "-x", "größe", "zone"};
  for (size_t count = 0; count <= names.size(); ++count) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(std::to_string(count) + " keys, seed " + std::to_string(seed));
      ExpectPlainMasks(Objects({names.begin(), names.begin() + static_cast<int64_t>(count)}), seed,
                       12);
      if (HasFatalFailure()) return;
    }
  }
}

// More different first letters than are looked at one by one, but rare ones: the mask of the key
// comes from that of any other key.
TEST(ModelMasks, OfManyKeysAreThoseOfThePlainWalk) {
  std::vector<std::string> names;
  for (const char letter : std::string("bfghjkmquvwxyz")) {
    names.push_back(std::string(1, letter) + "e");
    names.push_back({letter, 'e', letter});
  }
  for (uint64_t seed = 0; seed < 12; ++seed) {
    ExpectPlainMasks(Objects(names, seed % 2 == 0), seed, 12);
    if (HasFatalFailure()) return;
  }
}

TEST(ModelMasks, EveryTokenIsInOnePartOfEachAlphabet) {
  const Vocabulary& vocabulary = *Tokens();
  for (const Alphabet& alphabet : vocabulary.trie().alphabets) {
    std::vector<int> parts(static_cast<size_t>(vocabulary.size()));
    for (const int32_t token : alphabet.rest.tokens) ++parts[static_cast<size_t>(token)];
    for (int32_t token = 0; token < vocabulary.size(); ++token) {
      const auto word = static_cast<size_t>(token) / 32;
      parts[static_cast<size_t>(token)] +=
          static_cast<int>(alphabet.up_to.back()[word] >> (token % 32) & 1);
      EXPECT_EQ(parts[static_cast<size_t>(token)], vocabulary.special(token) ? 0 : 1);
    }
  }
}

TEST(ModelMasks, TheTreeSpellsEveryToken) {
  const Vocabulary& vocabulary = *Tokens();
  const ByteTrie& trie = vocabulary.trie().whole;
  std::vector<std::string> spelled(static_cast<size_t>(vocabulary.size()));
  std::string path;
  for (int32_t node = 1; node < trie.size(); ++node) {
    const ByteTrie::Node& at = trie.nodes[static_cast<size_t>(node)];
    path.resize(static_cast<size_t>(at.depth) - 1);
    path.push_back(static_cast<char>(at.byte));
    for (int32_t i = at.first_token; i < trie.FirstToken(node + 1); ++i) {
      spelled[static_cast<size_t>(trie.tokens[static_cast<size_t>(i)])] = path;
    }
  }
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    EXPECT_EQ(spelled[static_cast<size_t>(token)], vocabulary.bytes_of(token));
  }
}

}  // namespace
}  // namespace thalweg::grammar
