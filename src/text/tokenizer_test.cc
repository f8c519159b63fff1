// A tokenizer.json is read as the Hugging Face library reads it, or refused with an error that
// names the field; text never becomes an added token unless the caller asks for it.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "text/pieces.h"
#include "text/sample_text.h"
#include "text/stream_decoder.h"
#include "text/test_tokenizer.h"
#include "text/utf8.h"

namespace thalweg::text {
namespace {

using base::Json;
using Ids = std::vector<int32_t>;

Json SmallJson() {
  return ByteLevelJson({{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {"Ġ", "hello"}},
                       {"<｜User｜>", "<｜User｜>x", "<think>", " pad "});
}

Tokenizer Small() { return Tokenizer::Parse(SmallJson().dump()).value(); }

TEST(Tokenizer, EncodesAndDecodes) {
  const Tokenizer tokenizer = Small();
  EXPECT_EQ(tokenizer.vocab_size(), 265);
  EXPECT_EQ(tokenizer.Encode("hello hello", Specials::kAsText), (Ids{259, 260}));
  EXPECT_EQ(tokenizer.Decode(Ids{259, 260}, false), "hello hello");
  EXPECT_EQ(tokenizer.RawToken(260), "Ġhello");
  EXPECT_EQ(tokenizer.TokenBytes(260), " hello");
  EXPECT_EQ(tokenizer.TokenBytes(0xC3), "\xC3");
  EXPECT_EQ(tokenizer.Decode(Ids{0xC3}, false), "\uFFFD");
}

TEST(Tokenizer, UnknownIdsGiveNothing) {
  const Tokenizer tokenizer = Small();
  EXPECT_EQ(tokenizer.Decode(Ids{-1, 'a', 1'000'000, INT32_MIN, INT32_MAX, 'b'}, false), "ab");
  EXPECT_EQ(tokenizer.TokenBytes(-5), "");
  EXPECT_EQ(tokenizer.RawToken(99999), "");
  EXPECT_FALSE(tokenizer.IsSpecial(99999));
}

TEST(Tokenizer, SpecialsAreRecognisedOnlyWhenAsked) {
  const Tokenizer tokenizer = Small();
  const std::string text = "hello<｜User｜>x<think><｜User｜>";
  EXPECT_EQ(tokenizer.Encode(text, Specials::kRecognise), (Ids{259, 262, 263, 261}));
  const Ids as_text = tokenizer.Encode(text, Specials::kAsText);
  for (const int32_t id : as_text) EXPECT_FALSE(tokenizer.IsAdded(id));
  EXPECT_EQ(tokenizer.Decode(as_text, true), text);
  EXPECT_TRUE(tokenizer.IsSpecial(261));
  EXPECT_FALSE(tokenizer.IsSpecial(263));
  EXPECT_TRUE(tokenizer.IsAdded(263));
  EXPECT_EQ(tokenizer.IdOfSpecial("<think>"), 263);
  EXPECT_EQ(tokenizer.IdOfSpecial("hello"), std::nullopt);
  EXPECT_EQ(tokenizer.Decode(Ids{261, 'a', 263}, true), "a<think>");
}

TEST(Tokenizer, PiecesJoinTextAndKeepSpecialsApart) {
  const Tokenizer tokenizer = Small();
  const std::vector<Piece> pieces = {Piece::Special(261), Piece::Text("he"), Piece::Text("llo"),
                                     Piece::Special(263), Piece::Text("<think>")};
  Ids expected = {261, 259, 263};
  tokenizer.EncodeTo("<think>", Specials::kAsText, expected);
  EXPECT_EQ(EncodePieces(tokenizer, pieces), expected);
  EXPECT_EQ(SpellPieces(tokenizer, pieces), "<｜User｜>hello<think><think>");
}

TEST(Tokenizer, IllFormedTextIsRepaired) {
  const Tokenizer tokenizer = Small();
  EXPECT_EQ(tokenizer.Encode("a\xE4\xBDz", Specials::kAsText),
            tokenizer.Encode("a\uFFFDz", Specials::kAsText));
}

TEST(Tokenizer, SpaceTakingAndSingleWordTokens) {
  Json json = SmallJson();
  json["added_tokens"][2]["lstrip"] = true;
  json["added_tokens"][2]["rstrip"] = true;
  json["added_tokens"][1]["single_word"] = true;
  const Tokenizer tokenizer = Tokenizer::Parse(json.dump()).value();
  EXPECT_EQ(tokenizer.Encode("hello \n\u00A0<think> \t hello", Specials::kRecognise),
            (Ids{259, 263, 259}));
  EXPECT_EQ(tokenizer.Encode("<｜User｜>x-", Specials::kRecognise), (Ids{262, '-'}));
  const Ids inside = tokenizer.Encode("<｜User｜>xy", Specials::kRecognise);
  EXPECT_EQ(std::count(inside.begin(), inside.end(), 262), 0);
}

TEST(Tokenizer, NormalizedTokensComeAfterTheOthers) {
  Json json = ByteLevelJson({}, {"<ab>", "b>c"});
  json["added_tokens"][0]["normalized"] = true;
  const Tokenizer tokenizer = Tokenizer::Parse(json.dump()).value();
  EXPECT_EQ(tokenizer.Encode("<ab>c<ab>", Specials::kRecognise), (Ids{'<', 'a', 257, 256}));
}

TEST(Tokenizer, SplitBehaviours) {
  const auto encode = [](const std::string& behavior, bool invert) {
    Json json = ByteLevelJson({{"-", "-"}, {"a", "-"}, {"-", "a"}, {"a", "a"}}, {});
    json["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"},
           {"pattern", {{"String", "-"}}},
           {"behavior", behavior},
           {"invert", invert}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
    const Tokenizer tokenizer = Tokenizer::Parse(json.dump()).value();
    std::string pieces;
    for (const int32_t id : tokenizer.Encode("a--aa-a", Specials::kAsText)) {
      (pieces += tokenizer.TokenBytes(id)) += '|';
    }
    return pieces;
  };
  EXPECT_EQ(encode("Isolated", false), "a|-|-|aa|-|a|");
  EXPECT_EQ(encode("Removed", false), "a|aa|a|");
  EXPECT_EQ(encode("Removed", true), "-|-|-|");
  EXPECT_EQ(encode("Contiguous", false), "a|--|aa|-|a|");
  EXPECT_EQ(encode("MergedWithPrevious", false), "a-|-|a|a-|a|");
  EXPECT_EQ(encode("MergedWithNext", false), "a|-|-a|a|-a|");
}

TEST(Tokenizer, PrefixSpace) {
  Json json = SmallJson();
  json["pre_tokenizer"]["add_prefix_space"] = true;
  const Tokenizer tokenizer = Tokenizer::Parse(json.dump()).value();
  EXPECT_EQ(tokenizer.Encode("hello hello", Specials::kAsText), (Ids{260, 260}));
}

TEST(Tokenizer, ByteFallback) {
  Json json = {
      {"model",
       {{"type", "BPE"},
        {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"<0xC3>", 3}, {"<0xA9>", 4}}},
        {"merges", {"a b"}},
        {"byte_fallback", true}}},
      {"decoder",
       {{"type", "Sequence"}, {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}}}};
  const Tokenizer tokenizer = Tokenizer::Parse(json.dump()).value();
  EXPECT_EQ(tokenizer.Encode("abéb", Specials::kAsText), (Ids{2, 3, 4, 1}));
  EXPECT_EQ(tokenizer.Decode(Ids{2, 3, 4, 1, 3}, false), "abéb\uFFFD");
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.Push(3), "");
  EXPECT_EQ(decoder.Push(4), "é");
}

TEST(Tokenizer, StreamsWholeCharactersOnly) {
  const Tokenizer tokenizer = Small();
  StreamDecoder decoder(tokenizer);
  const std::string text = "é😀";
  std::string streamed;
  for (const int32_t id : tokenizer.Encode(text, Specials::kAsText)) {
    const std::string piece = decoder.Push(id);
    EXPECT_TRUE(IsValidUtf8(piece));
    streamed += piece;
  }
  EXPECT_EQ(streamed, text);
  EXPECT_EQ(decoder.Push(0xE4), "");
  EXPECT_EQ(decoder.Push(261), "");  // a special: no text, nothing settled
  EXPECT_EQ(decoder.held_bytes(), 1u);
  EXPECT_EQ(decoder.Flush(), "\uFFFD");
  EXPECT_EQ(decoder.Flush(), "");
}

TEST(Tokenizer, ThreadsShareOne) {
  const Tokenizer tokenizer = Small();
  const std::string text = SampleText(0, 20'000, 3);
  const Ids expected = tokenizer.Encode(text, Specials::kAsText);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        if (tokenizer.Encode(text, Specials::kAsText) != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

struct BadFile {
  const char* named;  // what the message must name
  std::function<void(Json&)> spoil;
};

const std::vector<BadFile> kBadFiles = {
    {"model", [](Json& j) { j.erase("model"); }},
    {"model.type", [](Json& j) { j["model"]["type"] = 5; }},
    {"Unigram", [](Json& j) { j["model"]["type"] = "Unigram"; }},
    {"merges", [](Json& j) { j["model"].erase("merges"); }},
    {"model.merges", [](Json& j) { j["model"]["merges"] = "a b"; }},
    {"model.merges[1]",
     [](Json& j) {
       j["model"]["merges"][1] = {"q", "nope"};
     }},
    {"model.merges[1]",
     [](Json& j) {
       j["model"]["merges"][1] = {"q", "z"};
     }},
    {"model.merges[0]", [](Json& j) { j["model"]["merges"][0] = "h e l"; }},
    {"model.merges[0]", [](Json& j) { j["model"]["merges"][0] = {"h"}; }},
    {"model.merges[0]",
     [](Json& j) {
       j["model"]["merges"][0] = {"h", ""};
     }},
    {"vocab", [](Json& j) { j["model"].erase("vocab"); }},
    {"model.vocab", [](Json& j) { j["model"]["vocab"] = Json::array(); }},
    {"model.vocab[\"he\"]", [](Json& j) { j["model"]["vocab"]["he"] = 1; }},
    {"model.vocab[\"he\"]", [](Json& j) { j["model"]["vocab"]["he"] = -1; }},
    {"model.vocab[\"he\"]", [](Json& j) { j["model"]["vocab"]["he"] = 1e300; }},
    {"model.vocab[\"he\"]", [](Json& j) { j["model"]["vocab"]["he"] = 4'000'000'000u; }},
    {"model.vocab[\"\"]", [](Json& j) { j["model"]["vocab"][""] = 900; }},
    {"limit is 4096", [](Json& j) { j["model"]["vocab"][std::string(5000, 'x')] = 900; }},
    {"model.unk_token", [](Json& j) { j["model"]["unk_token"] = "<nope>"; }},
    {"end_of_word_suffix", [](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }},
    {"model.dropout", [](Json& j) { j["model"]["dropout"] = 0.1; }},
    {"model.ignore_merges", [](Json& j) { j["model"]["ignore_merges"] = "yes"; }},
    {"added_tokens", [](Json& j) { j["added_tokens"] = 3; }},
    {"added_tokens[1]", [](Json& j) { j["added_tokens"][1]["id"] = 261; }},
    {"added_tokens[1]", [](Json& j) { j["added_tokens"][1]["id"] = 3; }},
    {"added_tokens[1].id", [](Json& j) { j["added_tokens"][1]["id"] = 1 << 30; }},
    {"added_tokens[2]", [](Json& j) { j["added_tokens"][1]["content"] = "<think>"; }},
    {"added_tokens[1]", [](Json& j) { j["added_tokens"][1]["content"] = "he"; }},
    {"added_tokens[1].content", [](Json& j) { j["added_tokens"][1]["content"] = ""; }},
    {"model.merges[0]",
     [](Json& j) {
       j["added_tokens"][1]["content"] = "he";
       j["added_tokens"][1]["id"] = 256;
     }},
    {"spells byte 97",
     [](Json& j) {
       j["added_tokens"][1]["content"] = "a";
       j["added_tokens"][1]["id"] = 'a';
     }},
    {"normalizer.type",
     [](Json& j) {
       j["normalizer"] = {{"type", "NFKC"}};
     }},
    {"normalizer.normalizers[0].type",
     [](Json& j) {
       j["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}};
     }},
    {"pre_tokenizer.type",
     [](Json& j) {
       j["pre_tokenizer"] = {{"type", "Whitespace"}};
     }},
    {"pre_tokenizer.pattern.Regex",
     [](Json& j) {
       j["pre_tokenizer"] = {
           {"type", "Split"}, {"pattern", {{"Regex", "(?<=a)b"}}}, {"behavior", "Isolated"}};
     }},
    {"pre_tokenizer.behavior",
     [](Json& j) {
       j["pre_tokenizer"] = {
           {"type", "Split"}, {"pattern", {{"Regex", "b"}}}, {"behavior", "Sideways"}};
     }},
    {"decoder", [](Json& j) { j["decoder"] = nullptr; }},
    {"decoder.type",
     [](Json& j) {
       j["decoder"] = {{"type", "WordPiece"}};
     }},
};

TEST(Tokenizer, BadFilesAreNamed) {
  for (size_t i = 0; i < kBadFiles.size(); ++i) {
    Json json = SmallJson();
    kBadFiles[i].spoil(json);
    const Result<Tokenizer> tokenizer = Tokenizer::Parse(json.dump());
    ASSERT_FALSE(tokenizer.ok()) << i << " " << kBadFiles[i].named;
    const std::string message = tokenizer.status().ToString();
    EXPECT_NE(message.find(kBadFiles[i].named), std::string::npos) << i << ": " << message;
  }
  for (const char* text : {"", "{", "[]", "null", "{\"model\":{}}"}) {
    EXPECT_FALSE(Tokenizer::Parse(text).ok()) << text;
  }
  EXPECT_FALSE(Tokenizer::Load("/nonexistent/tokenizer.json").ok());
}

}  // namespace
}  // namespace thalweg::text
