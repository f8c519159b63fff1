// Tokens that are marks act, the same characters spelled by other tokens are text, and after the
// token that completes a stop string no token counts (spec/serving.md 3.2: R28, R32).
#include "text/token_output_decoder.h"

#include <gtest/gtest.h>

#include "text/dsml.h"
#include "text/test_tokenizer.h"

namespace thalweg::text {
namespace {

using Start = OutputDecoderOptions::Start;

class TokenOutputTest : public ::testing::Test {
 protected:
  TokenOutputTest()
      : tokenizer_(Tokenizer::Parse(ByteLevelJson({{"S", "T"}, {"O", "P"}, {"o", "k"}},
                                                  {"<think>", "</think>", "｜DSML｜", "<｜end｜>"})
                                        .dump())
                       .value()) {}

  int32_t Special(std::string_view name) const { return tokenizer_.IdOfSpecial(name).value(); }
  std::vector<int32_t> Marked(std::string_view text) const {
    return tokenizer_.Encode(text, Specials::kRecognise);
  }
  std::vector<int32_t> Spelled(std::string_view text) const {
    return tokenizer_.Encode(text, Specials::kAsText);
  }

  // The output of tokens up to the one that ends it, and how many these are.
  DecodedOutput Decode(const OutputDecoderOptions& options, const std::vector<int32_t>& ids) {
    TokenOutputDecoder decoder = TokenOutputDecoder::Create(tokenizer_, options).value();
    DecodedOutput output;
    counted_ = 0;
    for (const int32_t id : ids) {
      if (decoder.done()) break;
      Append(decoder.Push(id), &output);
      ++counted_;
    }
    Append(decoder.Finish(OutputReason::kStop), &output);
    return output;
  }

  Tokenizer tokenizer_;
  size_t counted_ = 0;
};

TEST_F(TokenOutputTest, TheTokenEndsTheReasoningAndItsSpellingDoesNot) {
  std::vector<int32_t> ids = Spelled("say </think>");
  ids.push_back(Special("</think>"));
  for (const int32_t id : Spelled("and </think> again")) ids.push_back(id);
  const DecodedOutput output = Decode({.start = Start::kReasoning}, ids);
  EXPECT_EQ(output.reasoning, "say </think>");
  EXPECT_EQ(output.content, "and </think> again");
  EXPECT_EQ(output.end.faults.stray_think, 0);
}

TEST_F(TokenOutputTest, TheMarkOfCallsCountsAsTokenAndSpelled) {
  const std::string call =
      "<｜DSML｜ calls><｜DSML｜ invoke name=\"f\"></｜DSML｜ invoke></｜DSML｜ calls>";
  for (const std::vector<int32_t>& ids : {Marked(call), Spelled(call)}) {
    const DecodedOutput output = Decode({.tools = true}, ids);
    EXPECT_EQ(output.content, "");
    EXPECT_EQ(output.calls.at(0).arguments, "{}");
  }
  EXPECT_EQ(Decode({}, Marked(call)).content, call);
}

TEST_F(TokenOutputTest, R28TokensThatAreNoTextAreIgnored) {
  std::vector<int32_t> ids = Spelled("ok");
  for (const int32_t id : {-1, tokenizer_.vocab_size() + 7, INT32_MAX}) ids.push_back(id);
  for (const int32_t id : Spelled("!")) ids.push_back(id);
  EXPECT_EQ(Decode({}, ids).content, "ok!");
}

TEST_F(TokenOutputTest, R32NoTokenCountsAfterTheOneThatCompletesAStopString) {
  // Five tokens of one step: the stop string is complete inside the third.
  std::vector<int32_t> ids = Spelled("ok");
  for (const int32_t id : Spelled("STOP")) ids.push_back(id);
  const size_t until_stop = ids.size();
  for (const int32_t id : Spelled("okok")) ids.push_back(id);
  const DecodedOutput output = Decode({.stop = {"STO"}}, ids);
  EXPECT_EQ(output.content, "ok");
  EXPECT_EQ(output.end.stop_string, "STO");
  EXPECT_EQ(counted_, until_stop);
}

TEST_F(TokenOutputTest, ATokenizerWithoutTheMarkReadsItsSpelling) {
  const Tokenizer plain = Tokenizer::Parse(ByteLevelJson({}, {}).dump()).value();
  TokenOutputDecoder decoder =
      TokenOutputDecoder::Create(plain, {.start = Start::kReasoning}).value();
  DecodedOutput output;
  for (const int32_t id : plain.Encode("a</think>b", Specials::kAsText)) {
    Append(decoder.Push(id), &output);
  }
  Append(decoder.Finish(OutputReason::kStop), &output);
  EXPECT_EQ(output.reasoning, "a");
  EXPECT_EQ(output.content, "b");
}

}  // namespace
}  // namespace thalweg::text
