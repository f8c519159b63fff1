// Plans and results come back as they were sent; bytes that are cut, changed or of another version
// are refused or mean exactly what they say, and never more memory than they have bytes for.
#include "step/codec.h"

#include <gtest/gtest.h>

#include <cstring>

namespace thalweg::step {
namespace {

SamplingParams EveryParameter() {
  SamplingParams p = {.temperature = 0.5, .top_k = 7, .top_p = 0.9, .min_p = 0.1, .seed = 1u << 31};
  p.repetition_penalty = 1.5;
  p.frequency_penalty = -2;
  p.presence_penalty = 0.25;
  p.logit_bias = {{3, -100.0F}, {4, 0.5F}};
  p.allowed_tokens = {1, 2, 3};
  p.banned_tokens = {9};
  p.bad_words = {{1, 2}, {}, {3}};
  p.end_tokens = {1};
  p.stop_token_ids = {5, 6};
  p.ignore_eos = true;
  p.min_tokens = 2;
  p.thinking_budget = 100;
  p.think_begin_token = 128821;
  p.think_end_token = 128822;
  p.logprobs = 20;
  p.prompt_logprobs = 0;
  p.constrained = true;
  p.logits_processor = "mine";
  return p;
}

StepPlan SamplePlan() {
  StepPlan plan = {.number = 9, .closes = {0, 2}};
  plan.starts.push_back({.slot = 2,
                         .sequence = 77,
                         .tokens = {1, 2, 3, 4, 5},
                         .prompt_tokens = 4,
                         .end_tokens = 9,
                         .sampling = EveryParameter(),
                         .start = 2,
                         .restore_checkpoint = 3,
                         .encoder_floor = 1,
                         .decoder_floor = 2,
                         .decoder_from = 3,
                         .write_from = 4});
  plan.rows.push_back({.slot = 1,
                       .sequence = 5,
                       .start = 600,
                       .count = 1,
                       .known_tokens = false,
                       .sample = true,
                       .save_checkpoint = 1});
  plan.rows.push_back({.slot = 2,
                       .sequence = 77,
                       .start = 2,
                       .count = 3,
                       .sample = true,
                       .new_blocks_begin = 0,
                       .new_blocks_count = 2});
  plan.blocks = {11, 12};
  return plan;
}

StepResult SampleResult() {
  StepResult result = {.number = 9, .status = base::Internal("why"), .execute_seconds = 0.25};
  SequenceResult s = {.slot = 2, .sequence = 77, .drafted = 3, .saved = false};
  SampledToken token = {.token = 6, .end = TokenEnd::kStopToken, .forced = true};
  token.logprobs = {.chosen = {6, -0.5F, 2}, .top = {{7, -0.25F, 1}, {6, -0.5F, 2}}};
  s.prompt_logprobs = {token.logprobs, {}};
  result.Append(&s, {.token = 4});
  result.Append(&s, token);
  s.status = base::InvalidArgument("logits are not finite");
  result.sequences = {s, {}};
  return result;
}

std::string Bytes(const StepPlan& plan) {
  std::string bytes;
  EncodePlan(plan, &bytes);
  return bytes;
}
std::string Bytes(const StepResult& result) {
  std::string bytes;
  EncodeResult(result, &bytes);
  return bytes;
}

TEST(Codec, APlanComesBack) {
  StepPlan back = SamplePlan();  // what was there is replaced
  back.number = 1;
  ASSERT_TRUE(DecodePlan(Bytes(SamplePlan()), &back).ok());
  EXPECT_EQ(back.number, 9u);
  EXPECT_EQ(back.closes, SamplePlan().closes);
  EXPECT_EQ(back.blocks, SamplePlan().blocks);
  ASSERT_EQ(back.starts.size(), 1u);
  const SequenceStart& s = back.starts[0];
  EXPECT_EQ(s.tokens, SamplePlan().starts[0].tokens);
  EXPECT_EQ(s.restore_checkpoint, 3);
  EXPECT_EQ(s.write_from, 4);
  EXPECT_EQ(s.sampling.temperature, 0.5);
  EXPECT_EQ(s.sampling.bad_words, EveryParameter().bad_words);
  EXPECT_EQ(s.sampling.logit_bias, EveryParameter().logit_bias);
  EXPECT_EQ(s.sampling.prompt_logprobs, 0);
  EXPECT_EQ(s.sampling.logits_processor, "mine");
  ASSERT_EQ(back.rows.size(), 2u);
  EXPECT_FALSE(back.rows[0].known_tokens);
  EXPECT_EQ(back.rows[1].new_blocks_count, 2);
  EXPECT_EQ(Bytes(back), Bytes(SamplePlan()));
}

TEST(Codec, AResultComesBack) {
  StepResult back;
  ASSERT_TRUE(DecodeResult(Bytes(SampleResult()), &back).ok());
  EXPECT_EQ(back.status.code(), base::Code::kInternal);
  EXPECT_EQ(back.status.message(), "why");
  ASSERT_EQ(back.sequences.size(), 2u);
  EXPECT_EQ(back.sequences[0].drafted, 3);
  EXPECT_FALSE(back.sequences[0].saved);
  const std::span<const SampledToken> tokens = back.TokensOf(back.sequences[0]);
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[1].end, TokenEnd::kStopToken);
  EXPECT_TRUE(tokens[1].forced);
  EXPECT_EQ(tokens[1].logprobs.top[1].rank, 2);
  EXPECT_EQ(back.sequences[0].prompt_logprobs.size(), 2u);
  EXPECT_EQ(back.sequences[0].status.message(), "logits are not finite");
  EXPECT_EQ(back.execute_seconds, 0.25);
  EXPECT_EQ(Bytes(back), Bytes(SampleResult()));
}

// There is one spelling of every value.
TEST(Codec, EveryByteIsRefusedOrMatters) {
  const std::string plan = Bytes(SamplePlan()), result = Bytes(SampleResult());
  for (const std::string& good : {plan, result}) {
    for (size_t at = 0; at < good.size(); ++at) {
      for (const int flip : {1, 0x80, 0xff}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ flip);
        StepPlan p;
        StepResult r;
        EXPECT_TRUE(!DecodePlan(bad, &p).ok() || Bytes(p) == bad) << at;
        EXPECT_TRUE(!DecodeResult(bad, &r).ok() || Bytes(r) == bad) << at;
      }
    }
  }
}

TEST(Codec, CutOrLongerBytesAreRefused) {
  const std::string plan = Bytes(SamplePlan()), result = Bytes(SampleResult());
  StepPlan p;
  StepResult r;
  for (size_t n = 0; n < plan.size(); ++n)
    EXPECT_FALSE(DecodePlan(plan.substr(0, n), &p).ok()) << n;
  for (size_t n = 0; n < result.size(); ++n) {
    EXPECT_FALSE(DecodeResult(result.substr(0, n), &r).ok()) << n;
  }
  EXPECT_FALSE(DecodePlan(plan + '\0', &p).ok());
  EXPECT_FALSE(DecodeResult(result + '\0', &r).ok());
  EXPECT_FALSE(DecodePlan(result, &p).ok()) << "a result is no plan";
}

TEST(Codec, AnotherVersionIsNamed) {
  std::string bytes = Bytes(StepPlan{.number = 1});
  const uint32_t version = 41;
  std::memcpy(bytes.data() + 4, &version, sizeof(version));
  StepPlan plan;
  const Status status = DecodePlan(bytes, &plan);
  EXPECT_EQ(status.code(), base::Code::kUnsupported);
  EXPECT_NE(status.message().find("41"), std::string::npos);
}

TEST(Codec, AnInventedLengthAllocatesNothing) {
  std::string bytes = Bytes(StepPlan{.number = 1});
  const uint32_t many = 0xffffffff;
  std::memcpy(bytes.data() + 16, &many, sizeof(many));  // closes
  StepPlan plan;
  EXPECT_FALSE(DecodePlan(bytes, &plan).ok());
  EXPECT_LT(plan.closes.capacity(), 64u);
}

template <typename Change>
void ExpectRefused(const char* what, const Change& change) {
  StepPlan plan = SamplePlan();
  ASSERT_TRUE(CheckPlan(plan).ok());
  change(&plan);
  StepPlan back;
  EXPECT_EQ(DecodePlan(Bytes(plan), &back).code(), base::Code::kInvalidArgument) << what;
}

TEST(Codec, PlansThatNoRankMayRunAreRefused) {
  ExpectRefused("negative slot", [](StepPlan* p) { p->rows[0].slot = -1; });
  ExpectRefused("large slot", [](StepPlan* p) { p->closes[0] = kMaxSlots; });
  ExpectRefused("closed twice", [](StepPlan* p) { p->closes[1] = p->closes[0]; });
  ExpectRefused("rows twice", [](StepPlan* p) { p->rows[0].slot = 2; });
  ExpectRefused("no rows", [](StepPlan* p) { p->rows[0].count = 0; });
  ExpectRefused("drafts and no sample", [](StepPlan* p) { p->rows[0].sample = false; });
  ExpectRefused("a checkpoint of known rows", [](StepPlan* p) { p->rows[1].save_at = 64; });
  ExpectRefused("an end before the start", [](StepPlan* p) { p->starts[0].end_tokens = 4; });
  ExpectRefused("negative row", [](StepPlan* p) { p->rows[0].start = -1; });
  ExpectRefused("far row", [](StepPlan* p) { p->rows[0].start = kMaxPosition + 1; });
  ExpectRefused("block range", [](StepPlan* p) { p->rows[1].new_blocks_count = 3; });
  ExpectRefused("negative range", [](StepPlan* p) { p->rows[1].new_blocks_count = -1; });
  ExpectRefused("unused block", [](StepPlan* p) { p->blocks.push_back(1); });
  ExpectRefused("negative block", [](StepPlan* p) { p->blocks[0] = -7; });
  ExpectRefused("prompt", [](StepPlan* p) { p->starts[0].prompt_tokens = 6; });
  ExpectRefused("start", [](StepPlan* p) { p->starts[0].start = 5; });
  ExpectRefused("floor", [](StepPlan* p) { p->starts[0].encoder_floor = -1; });
  ExpectRefused("tokens", [](StepPlan* p) { p->rows[1].count = 4; });
  ExpectRefused("no first rows", [](StepPlan* p) { p->starts[0].slot = 3; });
}

}  // namespace
}  // namespace thalweg::step
