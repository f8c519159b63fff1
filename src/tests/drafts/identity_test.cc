// On the shipped checkpoint, drafts change no token: greedy and seeded sequences are what they are
// without, with a fixed or changing number of verified drafts, alone and in a batch, past the end
// of window and ring. Log-probabilities have the same bits.
#include <gtest/gtest.h>

#include <bit>

#include "tests/drafts/drafted_loop.h"
#include "tests/nano/nano_files.h"

namespace thalweg::tests {
namespace {

using step::SamplingParams;

std::vector<std::vector<int32_t>> Prompts(size_t stride) {
  std::vector<std::vector<int32_t>> prompts;
  const base::Json all = ReadJson(SourceDir() / "tests/data/nano/prompts.json");
  for (size_t i = 0; i < all.size(); i += stride)
    prompts.push_back(all[i]["ids"].get<std::vector<int32_t>>());
  return prompts;
}

// What is kept of a sequence when its loop is gone.
struct Decoded {
  std::vector<sampling::RowSample> samples = {};
  std::vector<spec::VerifiedBlock> verified = {};
  int64_t steps = 0;
};

// lengths: null, nothing is drafted. Sequence i has seed params.seed + i.
std::vector<Decoded> Decode(tools::Session* session, std::span<const std::vector<int32_t>> prompts,
                            SamplingParams params, int64_t tokens,
                            const DraftedLoop::Lengths* lengths) {
  DraftedLoop loop(session, lengths != nullptr);
  params.logprobs = 0;
  for (const std::vector<int32_t>& prompt : prompts) {
    const Status added = loop.Add(prompt, params, spec::Rule::kTarget, tokens);
    EXPECT_TRUE(added.ok()) << added.ToString();
    ++params.seed;
  }
  const DraftedLoop::Lengths none = [](size_t, int64_t) { return int64_t{0}; };
  const Status run = loop.Run(lengths != nullptr ? *lengths : none);
  EXPECT_TRUE(run.ok()) << run.ToString();
  std::vector<Decoded> decoded;
  for (const DraftedSequence& s : loop.sequences())
    decoded.push_back({s.samples, s.verified, s.steps});
  return decoded;
}

void ExpectSame(const std::vector<sampling::RowSample>& x,
                const std::vector<sampling::RowSample>& y) {
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(x[i].token, y[i].token) << "token " << i;
    ASSERT_EQ(x[i].end, y[i].end) << "token " << i;
    ASSERT_EQ(std::bit_cast<uint32_t>(x[i].logprobs.chosen.logprob),
              std::bit_cast<uint32_t>(y[i].logprobs.chosen.logprob))
        << "token " << i;
  }
}

void ExpectSame(const std::vector<Decoded>& a, const std::vector<Decoded>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t s = 0; s < a.size(); ++s) {
    SCOPED_TRACE(s);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(a[s].samples, b[s].samples));
  }
}

int64_t StepsOf(const std::vector<Decoded>& all) {
  int64_t steps = 0;
  for (const Decoded& d : all) steps += d.steps;
  return steps;
}

const DraftedLoop::Lengths kFixed = [](size_t, int64_t) { return int64_t{5}; };
const DraftedLoop::Lengths kChanging = [](size_t sequence, int64_t step) {
  return (static_cast<int64_t>(sequence) * 3 + step * step) % 6;
};

class DraftIdentity : public testing::TestWithParam<double> {};

TEST_P(DraftIdentity, AloneAndInABatch) {
  tools::Session session = OpenNano("cpu", 8);
  SamplingParams params = {.temperature = GetParam(), .top_p = 0.95, .seed = 11};
  params.frequency_penalty = 0.1;
  params.end_tokens = session.EndTokens();
  const auto prompts = Prompts(15);
  ASSERT_EQ(prompts.size(), 8u);
  const auto plain = Decode(&session, prompts, params, 40, nullptr);
  for (const DraftedLoop::Lengths* lengths : {&kFixed, &kChanging}) {
    const auto together = Decode(&session, prompts, params, 40, lengths);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(plain, together));
    EXPECT_LT(StepsOf(together), StepsOf(plain));
  }
  for (size_t i = 0; i < prompts.size(); i += 3) {
    SamplingParams own = params;
    own.seed = params.seed + i;
    const auto alone = Decode(&session, std::span(prompts).subspan(i, 1), own, 40, &kFixed);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(plain[i].samples, alone[0].samples)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Temperatures, DraftIdentity, testing::Values(0.0, 0.8));

// 300 tokens behind a short prompt: rings of 128 + 12 rows turn over more than twice, rejected rows
// at every parity.
TEST(DraftIdentity, PastTheEndOfTheRings) {
  const auto prompts = Prompts(120);
  for (const double temperature : {0.0, 1.3}) {
    const SamplingParams params = {.temperature = temperature, .seed = 3};
    tools::Session session = OpenNano("cpu", 1);
    const auto plain = Decode(&session, prompts, params, 300, nullptr);
    const auto drafted = Decode(&session, prompts, params, 300, &kChanging);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(plain, drafted));
    EXPECT_EQ(plain[0].samples.size(), 300u);
    int64_t odd_rejections = 0;
    for (const spec::VerifiedBlock& v : drafted[0].verified)
      odd_rejections += (v.verified - v.accepted) % 2;
    EXPECT_GT(odd_rejections, 10);
  }
}

}  // namespace
}  // namespace thalweg::tests
