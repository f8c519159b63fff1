// Sampling parameters mean in JSON what they mean in C++; a wrong value is an error that names the
// field and what it must be, and nothing is ignored.
#include "api/params_json.h"

#include <gtest/gtest.h>

namespace thalweg {
namespace {

void ExpectError(std::string_view json, ErrorCode code, std::string_view part) {
  const auto params = SamplingParams::FromJson(json);
  ASSERT_FALSE(params.ok()) << json;
  EXPECT_EQ(params.error().code, code) << params.error().message;
  EXPECT_NE(params.error().message.find(part), std::string::npos) << params.error().message;
}

void ExpectBad(std::string_view json, std::string_view part) {
  ExpectError(json, ErrorCode::kInvalidArgument, part);
}

TEST(ParamsJson, EveryFieldArrives) {
  const auto parsed = SamplingParams::FromJson(
      R"({"n": 3, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1,
          "repetition_penalty": 1.2, "frequency_penalty": -0.5, "presence_penalty": 0.25,
          "logit_bias": {"5": -100, "6": 2.5}, "allowed_token_ids": [1, 2], "banned_token_ids": [3],
          "bad_words": ["no"], "min_tokens": 2, "max_tokens": 7, "stop": ["a", "b"],
          "stop_token_ids": [9], "include_stop_str_in_output": true, "ignore_eos": true,
          "logprobs": 5, "prompt_logprobs": 0, "seed": 18446744073709551615,
          "skip_special_tokens": false, "thinking_budget": 11, "output_kind": "delta"})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const SamplingParams& p = *parsed;
  EXPECT_EQ(p.n, 3);
  EXPECT_EQ(p.temperature, 0.5);
  EXPECT_EQ(p.top_p, 0.9);
  EXPECT_EQ(p.top_k, 40);
  EXPECT_EQ(p.min_p, 0.1);
  EXPECT_EQ(p.repetition_penalty, 1.2);
  EXPECT_EQ(p.frequency_penalty, -0.5);
  EXPECT_EQ(p.presence_penalty, 0.25);
  ASSERT_EQ(p.logit_bias.size(), 2u);
  EXPECT_EQ(p.logit_bias[0], (std::pair<int32_t, float>(5, -100.0F)));
  EXPECT_EQ(p.allowed_token_ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(p.banned_token_ids, std::vector<int32_t>{3});
  EXPECT_EQ(p.bad_words, std::vector<std::string>{"no"});
  EXPECT_EQ(p.min_tokens, 2);
  EXPECT_EQ(p.max_tokens, 7);
  EXPECT_EQ(p.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(p.stop_token_ids, std::vector<int32_t>{9});
  EXPECT_TRUE(p.include_stop_str_in_output);
  EXPECT_TRUE(p.ignore_eos);
  EXPECT_EQ(p.logprobs, 5);
  EXPECT_EQ(p.prompt_logprobs, 0);
  EXPECT_EQ(p.seed, 18446744073709551615u);
  EXPECT_FALSE(p.skip_special_tokens);
  EXPECT_EQ(p.thinking_budget, 11);
  EXPECT_EQ(p.output_kind, OutputKind::kDelta);
}

TEST(ParamsJson, NullIsNoneAndLeftOutIsTheDefault) {
  const auto p = SamplingParams::FromJson(R"({"max_tokens": null, "seed": null, "stop": null})");
  ASSERT_TRUE(p.ok());
  EXPECT_FALSE(p->max_tokens.has_value());
  EXPECT_FALSE(p->seed.has_value());
  EXPECT_EQ(SamplingParams::FromJson("{}")->max_tokens, 16);
  EXPECT_EQ(SamplingParams::FromJson(R"({"seq_seed": 4})")->seed, 4u);
  EXPECT_EQ(SamplingParams::FromJson(R"({"stop": "x", "top_k": 3.0})")->stop.at(0), "x");
}

TEST(ParamsJson, WrongValuesAreNamed) {
  ExpectBad(R"({"temperature": "hot"})", "temperature is \"hot\", but must be a finite number");
  ExpectBad(R"({"n": 0})", "n is 0");
  ExpectBad(R"({"n": 1.5})", "n is 1.5");
  ExpectBad(R"({"max_tokens": -1})", "max_tokens");
  ExpectBad(R"({"seed": -1})", "seed");
  ExpectBad(R"({"seed": 1e300})", "seed");
  ExpectBad(R"({"logit_bias": [1]})", "logit_bias");
  ExpectBad(R"({"logit_bias": {"x": 1}})", "\"x\" is no token id");
  ExpectBad(R"({"logit_bias": {"99999999999": 1}})", "99999999999");
  ExpectBad(R"({"stop_token_ids": [1, "b"]})", "stop_token_ids[1]");
  ExpectBad(R"({"allowed_token_ids": [-1]})", "allowed_token_ids[0]");
  ExpectBad(R"({"bad_words": [1]})", "bad_words[0]");
  ExpectBad(R"({"ignore_eos": 1})", "ignore_eos");
  ExpectBad(R"({"output_kind": "all"})", "cumulative, delta, final_only");
  ExpectBad(R"({"temperature": NaN})", "not valid JSON");
  ExpectBad(R"([1])", "an object");
}

TEST(ParamsJson, NothingIsIgnored) {
  ExpectBad(R"({"temprature": 1})", "unknown sampling parameter \"temprature\"");
  ExpectBad(R"({"seed": 1, "seq_seed": 1})", "seed and seq_seed");
  ExpectError(R"({"guided_json": {}})", ErrorCode::kUnsupported, "use so_args");
  ExpectBad(R"({"so_args": {}, "response_format": {}})", "so_args and response_format");
}

}  // namespace
}  // namespace thalweg
