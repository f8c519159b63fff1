// The text of a sequence ends at the first character at which a stop string is complete, however
// tokens and pieces cut it; nothing of a possible stop string is given out before it is decided
// (spec/serving.md 3.2: R24 to R32).
#include "engine/stop_strings.h"

#include <gtest/gtest.h>

#include "engine/sequence_stream.h"
#include "text/test_tokenizer.h"

namespace thalweg::engine {
namespace {

using text::Dice;

struct Ended {
  std::string text;
  std::optional<std::string> stop;
  size_t bytes_read = 0;  // of the text, up to and with the stop string
};

// The obvious reference: try every end, shortest first, and every string at it, longest first.
Ended Naive(const std::string& text, const std::vector<std::string>& stops, size_t may_stop_from,
            bool include) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string_view head = std::string_view(text).substr(0, end);
    std::string best;
    for (const std::string& stop : stops) {
      if (head.ends_with(stop) && stop.size() > best.size()) best = stop;
    }
    if (best.empty() || end <= may_stop_from) continue;
    return {.text = std::string(head.substr(0, include ? end : end - best.size())),
            .stop = best,
            .bytes_read = end};
  }
  return {.text = text, .stop = {}, .bytes_read = text.size()};
}

std::string RandomText(Dice& dice, uint32_t letters, uint32_t longest) {
  // Of one, two, three and four bytes.
  static const std::vector<std::string> kLetters = {"a", "b", "\xC3\xA9", "\xE6\xBC\xA2",
                                                    "\xF0\x9F\x90\x9F"};
  std::string out;
  for (uint32_t n = 1 + dice.Below(longest); n > 0; --n) out += kLetters[dice.Below(letters)];
  return out;
}

TEST(StopStrings, AgreeWithTheNaiveReferenceHoweverTextIsCut) {
  Dice dice(1);
  int stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    const uint32_t letters = 2 + dice.Below(4);
    std::vector<std::string> stops;
    for (uint32_t n = 1 + dice.Below(4); n > 0; --n) stops.push_back(RandomText(dice, letters, 5));
    const std::string text = RandomText(dice, letters, 40);
    const bool include = dice.Below(2) == 0;
    const StopStrings strings(stops);
    StopMatcher matcher(strings, include);
    std::string out;
    for (size_t at = 0; at < text.size() && !matcher.found().has_value();) {
      const size_t piece = std::min<size_t>(text.size() - at, 1 + dice.Below(6));
      out += matcher.Push(std::string_view(text).substr(at, piece), true);
      at += piece;
      ASSERT_TRUE(Naive(text, stops, 0, include).text.starts_with(out)) << "given out too early";
    }
    out += matcher.Flush();
    const Ended naive = Naive(text, stops, 0, include);
    ASSERT_EQ(out, naive.text) << "round " << round;
    ASSERT_EQ(matcher.found().has_value(), naive.stop.has_value());
    if (naive.stop.has_value()) {
      ASSERT_EQ(strings.text(*matcher.found()), *naive.stop);
      ++stopped;
    }
  }
  EXPECT_GT(stopped, 5000);
}

TEST(StopStrings, NothingIsStreamedOfAStopThatArrivesInPieces) {
  const StopStrings strings({"DEFGHIJ"});
  StopMatcher matcher(strings, false);
  for (const char* piece : {"DEF", "G", "HI", "J"}) EXPECT_EQ(matcher.Push(piece, true), "");
  EXPECT_TRUE(matcher.found().has_value());
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopStrings, TextBeforeAStopOverTwoTokensRemains) {
  const StopStrings strings({"own fox"});
  StopMatcher matcher(strings, false);
  EXPECT_EQ(matcher.Push("brown", true), "br");
  EXPECT_EQ(matcher.Push(" fox jumps", true), "");
  EXPECT_TRUE(matcher.found().has_value());
  EXPECT_EQ(matcher.Push("more", true), "");
}

TEST(StopStrings, APrefixThatComesToNothingIsGivenBack) {
  const StopStrings strings({"abab!"});
  StopMatcher matcher(strings, false);
  EXPECT_EQ(matcher.Push("abab", true), "");
  EXPECT_EQ(matcher.held_bytes(), 4u);
  EXPECT_EQ(matcher.Push("a", true), "ab");
  EXPECT_EQ(matcher.Push("x", true), "abax");
}

// ---- Whole sequences: tokens in, outputs out.

std::shared_ptr<text::Tokenizer> ByteTokenizer() {
  auto parsed = text::Tokenizer::Parse(
      text::ByteLevelJson(text::RandomMerges(3, 40, false), {"<think>", "</think>"}).dump());
  TW_CHECK(parsed.ok());
  return std::make_shared<text::Tokenizer>(std::move(*parsed));
}

step::SampledToken Token(int32_t id, step::TokenEnd end = step::TokenEnd::kNone) {
  return {.token = id, .end = end};
}

std::shared_ptr<RequestRecord> RecordWith(std::vector<std::string> stops) {
  auto record = std::make_shared<RequestRecord>();
  record->stop = StopStrings(std::move(stops));
  return record;
}

// One output of everything: what the increments make together.
struct Whole {
  std::string text;
  std::vector<int32_t> ids;
  Output last;
};

Whole RunTokens(const RecordRef& record, const text::Tokenizer* tokenizer,
                const std::vector<int32_t>& ids) {
  SequenceStream stream(record, 0, tokenizer);
  Whole whole;
  const auto take = [&] {
    whole.last = stream.Take();
    whole.text += whole.last.text;
    for (const TokenOutput& token : whole.last.tokens) whole.ids.push_back(token.id);
  };
  for (const int32_t id : ids) {
    stream.OnToken(Token(id), 1);
    take();
    if (stream.ended()) return whole;
  }
  stream.OnFinished(sched::Finish::kLength, {}, 2);
  take();
  return whole;
}

// Random bytes as tokens of random lengths: cut characters, invalid bytes, stops across tokens.
TEST(SequenceStream, AgreesWithTheNaiveReferenceOnRandomTokens) {
  const auto tokenizer = ByteTokenizer();
  Dice dice(2);
  int stopped = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::string text = RandomText(dice, 5, 30);
    std::vector<int32_t> ids = tokenizer->Encode(text, text::Specials::kAsText);
    for (int32_t& id : ids) {
      if (dice.Below(20) == 0) id = static_cast<int32_t>(dice.Below(256));
    }
    auto record = RecordWith({RandomText(dice, 5, 3),
                              "\xEF\xBF\xBD"
                              "a"});
    record->include_stop = dice.Below(2) == 0;
    record->min_tokens = static_cast<int64_t>(dice.Below(4));
    const auto min = std::min(ids.size(), static_cast<size_t>(record->min_tokens));
    // What text the first min_tokens tokens make for certain: the naive search begins behind it.
    text::StreamDecoder first(*tokenizer);
    size_t from = 0;
    for (size_t i = 0; i < min; ++i) from += first.Push(ids[i]).size();
    const std::vector<std::string> stops = {record->stop.text(0), record->stop.text(1)};
    const Ended naive = Naive(tokenizer->Decode(ids, true), stops, from, record->include_stop);
    const Whole whole = RunTokens(record, tokenizer.get(), ids);
    ASSERT_EQ(whole.text, naive.text) << "round " << round;
    ASSERT_EQ(whole.last.stop_string, naive.stop);
    ASSERT_EQ(whole.last.finish, naive.stop ? FinishReason::kStop : FinishReason::kLength);
    ASSERT_EQ(whole.last.output_tokens, static_cast<int64_t>(whole.ids.size()));
    ASSERT_TRUE(std::equal(whole.ids.begin(), whole.ids.end(), ids.begin()));
    if (naive.stop.has_value()) ++stopped;
    // The last token is the one in which the stop string became complete.
    text::StreamDecoder decoder(*tokenizer);
    std::string before;
    for (size_t i = 0; i + 1 < whole.ids.size(); ++i) before += decoder.Push(whole.ids[i]);
    if (naive.stop.has_value()) {
      ASSERT_LT(before.size(), naive.bytes_read);
    }
  }
  EXPECT_GT(stopped, 500);
}

TEST(SequenceStream, TokensBehindAStopAreInNoCount) {
  const auto tokenizer = ByteTokenizer();
  const auto record = RecordWith({"b"});
  const Whole whole = RunTokens(record, tokenizer.get(), {'a', 'b', 'c', 'd'});
  EXPECT_EQ(whole.ids, (std::vector<int32_t>{'a', 'b'}));
  EXPECT_EQ(whole.text, "a");
  EXPECT_EQ(whole.last.output_tokens, 2);
  EXPECT_EQ(whole.last.stop_string, "b");
}

TEST(SequenceStream, ACharacterOverSeveralTokensComesOnceAndWhole) {
  const auto tokenizer = ByteTokenizer();
  SequenceStream stream(RecordWith({}), 0, tokenizer.get());
  std::vector<std::string> texts;
  for (const char byte : std::string("\xF0\x9F\x90\x9F a")) {
    stream.OnToken(Token(static_cast<uint8_t>(byte)), 1);
    texts.push_back(stream.Take().text);
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"", "", "", "\xF0\x9F\x90\x9F", " ", "a"}));
}

TEST(SequenceStream, AHalfCharacterAtTheEndIsReplaced) {
  const auto tokenizer = ByteTokenizer();
  const Whole whole = RunTokens(RecordWith({}), tokenizer.get(), {'a', 0xF0, 0x9F});
  EXPECT_EQ(whole.text, "a\xEF\xBF\xBD");
}

TEST(SequenceStream, AnUnknownTokenGivesNoTextAndBreaksNothing) {
  const auto tokenizer = ByteTokenizer();
  const Whole whole = RunTokens(RecordWith({}), tokenizer.get(), {'a', 1 << 20, 'b'});
  EXPECT_EQ(whole.text, "ab");
}

TEST(SequenceStream, EndTokensStayOutOfTheTextUnlessStopsAreIncluded) {
  const auto tokenizer = ByteTokenizer();
  for (const bool include : {false, true}) {
    auto record = RecordWith({});
    record->include_stop = include;
    SequenceStream stream(record, 0, tokenizer.get());
    stream.OnToken(Token('a'), 1);
    stream.OnToken(Token('z', step::TokenEnd::kStopToken), 1);
    stream.OnFinished(sched::Finish::kStopToken, {}, 2);
    const Output output = stream.Take();
    EXPECT_EQ(output.text, include ? "az" : "a");
    EXPECT_EQ(output.output_tokens, 2);
    EXPECT_EQ(output.finish, FinishReason::kStop);
    EXPECT_EQ(output.stop_token, 'z');
  }
}

TEST(SequenceStream, ReasoningTokensLieBetweenTheMarks) {
  const auto tokenizer = ByteTokenizer();
  auto record = RecordWith({});
  record->think_begin_token = *tokenizer->IdOfSpecial("<think>");
  record->think_end_token = *tokenizer->IdOfSpecial("</think>");
  record->starts_thinking = true;
  const Whole whole =
      RunTokens(record, tokenizer.get(), {'a', 'b', record->think_end_token, 'c', 'd'});
  EXPECT_EQ(whole.last.reasoning_tokens, 2);
  EXPECT_EQ(whole.last.output_tokens, 5);
}

TEST(SequenceStream, PromptLogprobsOfAnEarlierAttemptAreDropped) {
  SequenceStream stream(RecordWith({}), 0, nullptr);
  const auto at = [](int32_t token) {
    step::PositionLogprobs position;
    position.chosen.token = token;
    return std::vector<step::PositionLogprobs>{position};
  };
  stream.OnPromptStart(1);
  stream.OnPromptLogprobs(1, at(10));
  stream.OnPromptStart(4);  // preempted, and admitted again
  stream.OnPromptLogprobs(2, at(11));
  stream.OnPromptLogprobs(4, at(10));
  stream.OnPromptLogprobs(5, at(11));
  stream.OnToken(Token(3), 1);
  const Output output = stream.Take();
  ASSERT_EQ(output.prompt_logprobs.size(), 2u);
  EXPECT_EQ(output.prompt_logprobs[0].chosen.token, 10);
  EXPECT_EQ(output.prompt_logprobs[1].chosen.token, 11);
}

TEST(SequenceStream, ACancelledSequenceGivesWhatItHeldBack) {
  const auto tokenizer = ByteTokenizer();
  SequenceStream stream(RecordWith({"ab"}), 0, tokenizer.get());
  stream.OnToken(Token('a'), 1);
  EXPECT_EQ(stream.Take().text, "");
  stream.OnFinished(sched::Finish::kCancelled, {}, 2);
  const Output output = stream.Take();
  EXPECT_EQ(output.text, "a");
  EXPECT_EQ(output.finish, FinishReason::kCancelled);
}

}  // namespace
}  // namespace thalweg::engine
