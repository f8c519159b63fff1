// A row's sample has the same bits alone, among 63 neighbours with every feature on, in any order
// and on any number of threads; log-probabilities and ranks are those of a sort.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "sampling/test_rows.h"

namespace thalweg::sampling {
namespace {

using step::SamplingParams;

constexpr int64_t kVocab = 777;
constexpr size_t kRows = 64;

// Row i of 64: plain ones, and ones with everything.
SamplingParams ParamsOf(size_t i) {
  SamplingParams p = {.seed = 1000 + i};
  if (i % 5 == 0) p.temperature = 0;
  if (i % 3 == 0) p.top_k = static_cast<int64_t>(i) + 1;
  if (i % 4 == 0) p.top_p = 0.8;
  if (i % 7 == 0) p.min_p = 0.02;
  if (i % 2 == 0) return p;
  p.repetition_penalty = 1.1;
  p.frequency_penalty = 0.2;
  p.presence_penalty = -0.3;
  p.logit_bias = {{5, 2.0f}, {6, -3.0f}};
  p.banned_tokens = {static_cast<int32_t>(i)};
  p.bad_words = {{1, 2}, {3}};
  p.end_tokens = {9};
  p.min_tokens = 4;
  p.logprobs = static_cast<int32_t>(i % 21);
  if (i % 9 == 0) p.allowed_tokens = {1, 2, 3, 4, 5, 6, 7, 8, 100, 200, 300};
  return p;
}

struct Batch {
  std::vector<std::vector<float>> logits;
  std::vector<SequenceState> states;
  Processor processor = [](std::span<const int32_t> tokens, std::span<float> l) -> Status {
    l[tokens.size()] += 1;
    return {};
  };

  Batch() {
    for (size_t i = 0; i < kRows; ++i) {
      logits.push_back(RandomRow(kVocab, i / 2, 2));
      states.emplace_back(ParamsOf(i), kVocab, std::vector<int32_t>{1, 7, 9, 7}, 2);
    }
  }
  Row RowOf(size_t i) {
    return {.logits = logits[i],
            .state = &states[i],
            .position = 4 + static_cast<int64_t>(i),
            .processor = i % 11 == 10 ? &processor : nullptr};
  }
};

void ExpectSame(const RowSample& a, const RowSample& b) {
  EXPECT_EQ(a.token, b.token);
  EXPECT_EQ(a.end, b.end);
  EXPECT_EQ(a.logprobs.chosen.rank, b.logprobs.chosen.rank);
  EXPECT_EQ(std::bit_cast<uint32_t>(a.logprobs.chosen.logprob),
            std::bit_cast<uint32_t>(b.logprobs.chosen.logprob));
  ASSERT_EQ(a.logprobs.top.size(), b.logprobs.top.size());
  for (size_t i = 0; i < a.logprobs.top.size(); ++i) {
    EXPECT_EQ(a.logprobs.top[i].token, b.logprobs.top[i].token);
    EXPECT_EQ(a.logprobs.top[i].logprob, b.logprobs.top[i].logprob);
  }
}

std::vector<RowSample> OneAtATime() {
  Batch batch;
  std::vector<RowSample> samples;
  for (size_t i = 0; i < kRows; ++i) {
    const Row row = batch.RowOf(i);
    Scratch scratch;
    Result<RowSample> sample =
        SampleRow(row.logits, *row.state, row.position, row.processor, &scratch);
    EXPECT_TRUE(sample.ok()) << sample.status().ToString();
    samples.push_back(std::move(sample).value());
  }
  return samples;
}

TEST(Rows, AreTheSameInAnyCompanyOrderAndTeam) {
  const std::vector<RowSample> alone = OneAtATime();
  ScratchPool pool;
  for (const int threads : {1, 2, 5}) {
    const base::ThreadTeam team(threads, base::Pinning::kOff);
    for (const size_t stride : {size_t{1}, size_t{5}, size_t{63}}) {
      Batch batch;
      std::vector<size_t> order(kRows);
      for (size_t i = 0; i < kRows; ++i) order[i] = i * stride % kRows;
      std::vector<Row> rows;
      for (const size_t i : order) rows.push_back(batch.RowOf(i));
      std::vector<Result<RowSample>> results;
      SampleRows(team, rows, &pool, &results);
      ASSERT_EQ(results.size(), kRows);
      for (size_t i = 0; i < kRows; ++i) ExpectSame(*results[i], alone[order[i]]);
    }
  }
}

TEST(Rows, FailAlone) {
  Batch batch;
  std::vector<Row> rows;
  for (size_t i = 0; i < kRows; ++i) rows.push_back(batch.RowOf(i));
  batch.logits[17][300] = NAN;
  ScratchPool pool;
  std::vector<Result<RowSample>> results;
  SampleRows(base::ThreadTeam(2, base::Pinning::kOff), rows, &pool, &results);
  const std::vector<RowSample> alone = OneAtATime();
  for (size_t i = 0; i < kRows; ++i) {
    if (i == 17) {
      EXPECT_EQ(results[i].status().code(), base::Code::kInternal);
    } else {
      ExpectSame(*results[i], alone[i]);
    }
  }
}

TEST(Rows, NoiseGoesByTokenIdAndNotByRank) {
  // Moving every logit of a row to another id changes which noise it meets; truncation does not.
  const std::vector<float> row = RandomRow(64, 3, 1);
  int same = 0;
  for (int64_t position = 0; position < 200; ++position) {
    const int32_t all = Draw(row, {.seed = 6}, position)->token;
    const float worst_kept = row[static_cast<size_t>(all)];
    const auto better =
        std::count_if(row.begin(), row.end(), [&](float l) { return l > worst_kept; });
    const SamplingParams cut = {.top_k = better + 1, .seed = 6};
    EXPECT_EQ(Draw(row, cut, position)->token, all);  // the winner of all wins of any part
    std::vector<float> reversed(row.rbegin(), row.rend());
    same += Draw(reversed, {.seed = 6}, position)->token == 63 - all;
  }
  EXPECT_LT(same, 100);
}

void ExpectSorted(const std::vector<float>& row, const step::PositionLogprobs& got, int32_t token,
                  int32_t top) {
  std::vector<int32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
  });
  double sum = 0;
  for (const float l : row) sum += std::exp(static_cast<double>(l));
  const auto logprob = [&](int32_t t) {
    return static_cast<double>(row[static_cast<size_t>(t)]) - std::log(sum);
  };
  EXPECT_EQ(got.chosen.token, token);
  EXPECT_EQ(got.chosen.rank, 1 + (std::find(order.begin(), order.end(), token) - order.begin()));
  EXPECT_NEAR(got.chosen.logprob, logprob(token), 1e-5);
  ASSERT_EQ(static_cast<int32_t>(got.top.size()), top);
  for (size_t i = 0; i < got.top.size(); ++i) {
    EXPECT_EQ(got.top[i].token, order[i]);
    EXPECT_EQ(got.top[i].rank, static_cast<int32_t>(i) + 1);
    EXPECT_NEAR(got.top[i].logprob, logprob(order[i]), 1e-5);
  }
}

TEST(Logprobs, AreThoseOfASort) {
  for (const double step : {0.0, 0.5, 3.0}) {
    const std::vector<float> row = RandomRow(1003, 9, 4, step);
    for (const int32_t token : {0, 1, 63, 64, 500, 1002}) {
      for (const int32_t top : {0, 1, 20})
        ExpectSorted(row, *PromptLogprobs(row, token, top), token, top);
      EXPECT_NEAR(LogProbability(row, token), PromptLogprobs(row, token, 0)->chosen.logprob, 1e-5);
    }
  }
}

TEST(Logprobs, OfSamplesAreOnlyThereWhenAskedFor) {
  const std::vector<float> row = RandomRow(500, 2, 2, 0.5);
  for (const int32_t top : {-1, 0, 20}) {
    const Result<RowSample> sample = Draw(row, {.logprobs = top}, 5);
    if (top < 0) {
      EXPECT_EQ(sample->logprobs.chosen.rank, 0);
    } else {
      ExpectSorted(row, sample->logprobs, sample->token, top);
    }
  }
}

TEST(Logprobs, RefuseNan) {
  EXPECT_EQ(PromptLogprobs(std::vector<float>{0, NAN}, 0, 1).status().code(),
            base::Code::kInternal);
}

}  // namespace
}  // namespace thalweg::sampling
