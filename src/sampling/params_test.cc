// Every parameter out of its range is refused with a message that names it and its value;
// contradictions name both sides; limits hold to the last entry.
#include "sampling/params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace thalweg::sampling {
namespace {

using step::SamplingParams;

constexpr int64_t kVocab = 1000;
const double kNan = std::nan("");
const double kInf = std::numeric_limits<double>::infinity();

void ExpectRefused(const SamplingParams& p, const std::vector<std::string>& words) {
  const Status status = Validate(p, kVocab);
  EXPECT_EQ(status.code(), base::Code::kInvalidArgument) << words[0];
  for (const std::string& word : words)
    EXPECT_NE(status.message().find(word), std::string::npos) << word << ": " << status.message();
}

void ExpectTaken(const SamplingParams& p) {
  EXPECT_TRUE(Validate(p, kVocab).ok()) << Validate(p, kVocab).ToString();
}

struct RealCase {
  const char* name;
  double SamplingParams::*field;
  std::vector<double> taken;
  std::vector<double> refused;
};

TEST(Validate, Reals) {
  const std::vector<RealCase> cases = {
      {"temperature", &SamplingParams::temperature, {0, 1e-9, 1, 100}, {-1e-9, 100.001}},
      {"top_p", &SamplingParams::top_p, {1e-9, 1}, {0, -0.5, 1.0001}},
      {"min_p", &SamplingParams::min_p, {0, 1}, {-0.1, 1.0001}},
      {"repetition_penalty", &SamplingParams::repetition_penalty, {0.01, 100}, {0, -1, 100.1}},
      {"frequency_penalty", &SamplingParams::frequency_penalty, {-2, 0, 2}, {-2.01, 2.01}},
      {"presence_penalty", &SamplingParams::presence_penalty, {-2, 0, 2}, {-2.01, 2.01}}};
  for (const RealCase& c : cases) {
    SamplingParams p;
    for (const double x : c.taken) {
      p.*c.field = x;
      ExpectTaken(p);
    }
    std::vector<double> refused = c.refused;
    refused.insert(refused.end(), {kNan, kInf, -kInf});
    for (const double x : refused) {
      p.*c.field = x;
      ExpectRefused(p, {c.name, "must be"});
    }
  }
  ExpectRefused({.temperature = 101.5}, {"temperature is 101.5", "[0, 100]"});
}

TEST(Validate, TopKIsAnything) {
  ExpectTaken({.top_k = -5});
  ExpectTaken({.top_k = std::numeric_limits<int64_t>::max()});
}

TEST(Validate, LogitBias) {
  ExpectTaken({.logit_bias = {{0, 100.0f}, {999, -100.0f}}});
  ExpectRefused({.logit_bias = {{1000, 1.0f}}}, {"logit_bias", "token 1000", "0 to 999"});
  ExpectRefused({.logit_bias = {{-1, 1.0f}}}, {"logit_bias", "token -1"});
  ExpectRefused({.logit_bias = {{1, 100.5f}}}, {"logit_bias of token 1 is 100.5"});
  ExpectRefused({.logit_bias = {{1, static_cast<float>(kNan)}}}, {"logit_bias of token 1 is nan"});
  ExpectRefused({.logit_bias = {{1, static_cast<float>(-kInf)}}}, {"logit_bias"});
  ExpectRefused({.logit_bias = {{7, 1.0f}, {7, 1.0f}}}, {"logit_bias has token 7 twice"});
}

TEST(Validate, TokenLists) {
  const auto refuse = [](auto field, const std::string& name) {
    for (const int32_t token : {-1, 1000}) {
      SamplingParams p;
      p.*field = {5, token};
      ExpectRefused(p, {name, "token " + std::to_string(token)});
    }
  };
  refuse(&SamplingParams::allowed_tokens, "allowed_token_ids");
  refuse(&SamplingParams::banned_tokens, "banned_token_ids");
  refuse(&SamplingParams::end_tokens, "end_tokens");
  refuse(&SamplingParams::stop_token_ids, "stop_token_ids");
  ExpectRefused({.bad_words = {{5, 1000}}}, {"bad_words", "token 1000"});
  ExpectRefused({.bad_words = {{}}}, {"bad_words", "without tokens"});
}

TEST(Validate, Limits) {
  const auto check = [](auto field, size_t most, auto entry, const std::string& name) {
    SamplingParams p;
    (p.*field).assign(most, entry);
    if (name != "logit_bias") ExpectTaken(p);
    (p.*field).push_back(entry);
    ExpectRefused(p, {name, std::to_string(most + 1) + " entries", std::to_string(most)});
  };
  check(&SamplingParams::stop_token_ids, kMaxStopTokens, 4, "stop_token_ids");
  check(&SamplingParams::end_tokens, kMaxStopTokens, 4, "end_tokens");
  check(&SamplingParams::bad_words, kMaxBadWords, std::vector<int32_t>{4}, "bad_words");
  check(&SamplingParams::logit_bias, kMaxLogitBias, std::pair<int32_t, float>{4, 1.0f},
        "logit_bias");
  check(&SamplingParams::allowed_tokens, kVocab, 4, "allowed_token_ids");
  check(&SamplingParams::banned_tokens, kVocab, 4, "banned_token_ids");
  ExpectTaken({.bad_words = {std::vector<int32_t>(kMaxBadWordTokens, 4)}});
  ExpectRefused({.bad_words = {std::vector<int32_t>(kMaxBadWordTokens + 1, 4)}}, {"bad_words"});
  SamplingParams p;
  for (size_t i = 0; i < std::min<size_t>(kMaxLogitBias, kVocab); ++i)
    p.logit_bias.emplace_back(static_cast<int32_t>(i), 1.0f);
  ExpectTaken(p);
}

TEST(Validate, Integers) {
  ExpectRefused({.min_tokens = -1}, {"min_tokens is -1"});
  for (const int32_t n : {-2, step::kMaxLogprobs + 1}) {
    ExpectRefused({.logprobs = n}, {"logprobs is " + std::to_string(n)});
    ExpectRefused({.prompt_logprobs = n}, {"prompt_logprobs is " + std::to_string(n)});
  }
  ExpectTaken({.logprobs = 20, .prompt_logprobs = 20});
}

TEST(Validate, ThinkingBudgetNeedsItsTokens) {
  ExpectTaken({.thinking_budget = -1});
  ExpectTaken({.thinking_budget = 5, .think_begin_token = 1, .think_end_token = 2});
  ExpectRefused({.thinking_budget = 5}, {"thinking_budget", "think_begin_token"});
  ExpectRefused({.thinking_budget = 5, .think_begin_token = 1},
                {"thinking_budget", "think_end_token", "-1"});
  ExpectRefused({.thinking_budget = 5, .think_begin_token = 1, .think_end_token = 1000},
                {"think_end_token", "1000"});
  ExpectRefused({.thinking_budget = 5, .think_begin_token = 3, .think_end_token = 3},
                {"think_begin_token", "think_end_token", "3"});
}

TEST(Validate, ContradictionsNameBothSides) {
  ExpectRefused({.allowed_tokens = {1, 2}, .banned_tokens = {2, 1, 3}},
                {"banned_token_ids", "allowed_token_ids"});
  ExpectRefused({.allowed_tokens = {1, 2}, .banned_tokens = {2}, .bad_words = {{1}}},
                {"bad_words", "allowed_token_ids"});
  ExpectTaken({.allowed_tokens = {1, 2}, .banned_tokens = {2}, .bad_words = {{2, 1}}});
  std::vector<int32_t> all(kVocab);
  std::iota(all.begin(), all.end(), 0);
  ExpectRefused({.banned_tokens = all}, {"banned_token_ids", "vocabulary"});
  SamplingParams ends = {.allowed_tokens = {1, 2}, .end_tokens = {1}, .stop_token_ids = {2}};
  ExpectTaken(ends);
  ends.min_tokens = 1;
  ExpectRefused(ends, {"min_tokens is 1", "allowed_token_ids", "stop"});
  ends.ignore_eos = true;
  ExpectTaken(ends);
}

}  // namespace
}  // namespace thalweg::sampling
