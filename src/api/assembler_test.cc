// Increments of the engine, in any split and interleaving, add up to the same output; each kind of
// stream hands out what it promises.
#include "api/assembler.h"

#include <gtest/gtest.h>

namespace thalweg::api {
namespace {

engine::Output Part(int32_t index, std::string text, std::vector<int32_t> ids) {
  engine::Output part;
  part.index = index;
  part.text = std::move(text);
  for (const int32_t id : ids) part.tokens.push_back({.id = id, .logprobs = {}});
  return part;
}

engine::Output End(int32_t index, engine::FinishReason reason) {
  engine::Output part;
  part.index = index;
  part.finish = reason;
  return part;
}

step::PositionLogprobs Chosen(int32_t token, float logprob) {
  return {.chosen = {.token = token, .logprob = logprob, .rank = 2},
          .top = {{.token = 7, .logprob = -0.25F, .rank = 1}}};
}

SamplingParams Params(OutputKind kind, int n) {
  SamplingParams params;
  params.output_kind = kind;
  params.n = n;
  return params;
}

TEST(Assembler, CumulativeOutputHoldsEverySequence) {
  Assembler assembler({.request_id = "a"}, Params(OutputKind::kCumulative, 2), nullptr);
  assembler.Add(Part(1, "x", {5}));
  assembler.Add(Part(0, "p", {1, 2}));
  const RequestOutput* output = assembler.Add(Part(1, "y", {6}));
  ASSERT_NE(output, nullptr);
  EXPECT_EQ(output->request_id, "a");
  ASSERT_EQ(output->outputs.size(), 2u);
  EXPECT_EQ(output->outputs[0].text, "p");
  EXPECT_EQ(output->outputs[1].text, "xy");
  EXPECT_EQ(output->outputs[1].token_ids, (std::vector<int32_t>{5, 6}));
  EXPECT_FALSE(output->finished);
}

TEST(Assembler, FinishedWhenTheLastSequenceIs) {
  Assembler assembler({}, Params(OutputKind::kFinalOnly, 2), nullptr);
  EXPECT_EQ(assembler.Add(Part(0, "p", {1})), nullptr);
  engine::Output stop = End(0, engine::FinishReason::kStop);
  stop.stop_string = "###";
  EXPECT_EQ(assembler.Add(stop), nullptr);
  engine::Output token = End(1, engine::FinishReason::kStop);
  token.stop_token = 9;
  const RequestOutput* output = assembler.Add(token);
  ASSERT_NE(output, nullptr);
  EXPECT_TRUE(output->finished);
  EXPECT_EQ(output->outputs[0].finish_reason, "stop");
  EXPECT_EQ(std::get<std::string>(output->outputs[0].stop_reason), "###");
  EXPECT_EQ(std::get<int32_t>(output->outputs[1].stop_reason), 9);
}

TEST(Assembler, DeltasAddUpToTheWhole) {
  Assembler assembler({}, Params(OutputKind::kDelta, 2), nullptr);
  std::string text;
  for (const char* piece : {"one", " two", " three"}) {
    const RequestOutput* output = assembler.Add(Part(1, piece, {3}));
    ASSERT_EQ(output->outputs.size(), 1u);
    EXPECT_EQ(output->outputs[0].index, 1);
    EXPECT_EQ(output->outputs[0].token_ids.size(), 1u);
    text += output->outputs[0].text;
  }
  EXPECT_EQ(text, "one two three");
}

TEST(Assembler, LogprobsAddUpAndPromptLogprobsStartWithNothing) {
  SamplingParams params = Params(OutputKind::kCumulative, 1);
  params.logprobs = 1;
  Assembler assembler({}, params, nullptr);
  engine::Output part = Part(0, "ab", {4, 5});
  part.tokens[0].logprobs = Chosen(4, -0.5F);
  part.tokens[1].logprobs = Chosen(5, -1.5F);
  part.prompt_logprobs = {Chosen(2, -3.0F)};
  const RequestOutput* output = assembler.Add(part);
  EXPECT_EQ(output->outputs[0].cumulative_logprob, -2.0);
  ASSERT_EQ(output->outputs[0].logprobs->size(), 2u);
  EXPECT_EQ(output->outputs[0].logprobs->at(1).chosen.token_id, 5);
  EXPECT_EQ(output->outputs[0].logprobs->at(1).top.at(0).rank, 1);
  ASSERT_EQ(output->prompt_logprobs->size(), 2u);
  EXPECT_FALSE(output->prompt_logprobs->at(0).has_value());
  EXPECT_EQ(output->prompt_logprobs->at(1)->chosen.token_id, 2);
}

TEST(Assembler, AnErrorOfASequenceIsTheRequestsError) {
  Assembler assembler({}, Params(OutputKind::kCumulative, 1), nullptr);
  engine::Output part = End(0, engine::FinishReason::kError);
  part.status = base::Internal("logits are not finite");
  const RequestOutput* output = assembler.Add(part);
  ASSERT_TRUE(output->error.has_value());
  EXPECT_EQ(output->error->code, ErrorCode::kInternal);
  EXPECT_TRUE(output->finished);
  EXPECT_EQ(output->outputs[0].finish_reason, "error");
}

}  // namespace
}  // namespace thalweg::api
