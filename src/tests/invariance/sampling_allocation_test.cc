// Sampling rows without features (greedy, temperature, top-k, top-p, min-p) allocates nothing once
// it has run a few times, on the caller's thread and on the members of the team.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sampling/sampler.h"
#include "tests/invariance/count_allocations.h"

namespace thalweg::tests {
namespace {

constexpr int64_t kVocab = 5000;

std::vector<float> Logits(int64_t step) {
  std::vector<float> logits(kVocab);
  for (size_t v = 0; v < logits.size(); ++v)
    logits[v] = 4 * std::sin(static_cast<float>(v) * 1.7f + static_cast<float>(step));
  return logits;
}

TEST(SamplingAllocations, NoneForPlainRows) {
  const std::vector<step::SamplingParams> kinds = {
      {.temperature = 0},          {}, {.top_k = 50}, {.top_p = 0.9}, {.min_p = 0.1},
      {.top_k = 900, .top_p = 0.5}};
  const base::ThreadTeam team(2, base::Pinning::kOff);
  std::vector<sampling::SequenceState> states;
  for (const step::SamplingParams& p : kinds)
    states.emplace_back(p, kVocab, std::vector<int32_t>{1}, 1);
  std::vector<std::vector<float>> logits(kinds.size());
  std::vector<sampling::Row> rows(kinds.size());
  std::vector<Result<sampling::RowSample>> results;
  sampling::ScratchPool pool;
  int quiet = 0;
  for (int64_t step = 0; step < 200 && quiet < 25; ++step) {
    for (size_t i = 0; i < rows.size(); ++i) {
      logits[i] = Logits(step % 5);
      rows[i] = {.logits = logits[i], .state = &states[i], .position = step};
    }
    const int64_t before = Allocations();
    sampling::SampleRows(team, rows, &pool, &results);
    quiet = Allocations() == before ? quiet + 1 : 0;
  }
  EXPECT_EQ(quiet, 25);
}

}  // namespace
}  // namespace thalweg::tests
