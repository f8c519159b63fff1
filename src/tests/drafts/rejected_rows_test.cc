// Rows of rejected drafts leave no trace (spec/decoding.md 1.9): rings, half groups and history
// that they have overwritten are written again before they are read, at every odd and even length,
// past several turns of the rings; and the draft module never sees them.
#include <gtest/gtest.h>

#include <bit>

#include "tests/drafts/drafted_loop.h"
#include "tests/nano/nano_files.h"

namespace thalweg::tests {
namespace {

constexpr int64_t kTokens = 320;

// Every draft is wrong: the next token along, which is not what the target says.
void Spoil(spec::DraftBlock* block) {
  for (int32_t& token : block->tokens) token = token % 4000 + 1;
}

struct Decoded {
  std::vector<sampling::RowSample> samples = {};
  std::vector<spec::VerifiedBlock> verified = {};
};

Decoded Decode(tools::Session* session, std::span<const int32_t> prompt, int64_t drafts) {
  DraftedLoop loop(session, drafts > 0);
  loop.SetSpoiler(Spoil);
  const step::SamplingParams params = {.temperature = 0.7, .seed = 5, .logprobs = 0};
  EXPECT_TRUE(loop.Add(prompt, params, spec::Rule::kTarget, kTokens).ok());
  EXPECT_TRUE(loop.Run([&](size_t, int64_t) { return drafts; }).ok());
  return {loop.sequences()[0].samples, loop.sequences()[0].verified};
}

void ExpectSameBits(const Decoded& a, const Decoded& b) {
  ASSERT_EQ(a.samples.size(), b.samples.size());
  for (size_t i = 0; i < a.samples.size(); ++i) {
    ASSERT_EQ(a.samples[i].token, b.samples[i].token) << i;
    ASSERT_EQ(std::bit_cast<uint32_t>(a.samples[i].logprobs.chosen.logprob),
              std::bit_cast<uint32_t>(b.samples[i].logprobs.chosen.logprob))
        << i;
  }
}

class RejectedRows : public testing::TestWithParam<int64_t> {
 protected:
  std::vector<int32_t> Prompt() const {
    auto ids = ReadJson(SourceDir() / "tests/data/nano/prompts.json")[16]["ids"]
                   .get<std::vector<int32_t>>();
    ids.resize(static_cast<size_t>(GetParam()));
    return ids;
  }
};

TEST_P(RejectedRows, OverwriteNothingThatIsRead) {
  tools::Session session = OpenNano("cpu", 1);
  const Decoded plain = Decode(&session, Prompt(), 0);
  for (const int64_t drafts : {5, 4, 3}) {
    SCOPED_TRACE(drafts);
    const Decoded rejected = Decode(&session, Prompt(), drafts);
    ASSERT_NO_FATAL_FAILURE(ExpectSameBits(plain, rejected));
    int64_t accepted = 0;
    for (const spec::VerifiedBlock& v : rejected.verified) accepted += v.accepted;
    EXPECT_LT(accepted, kTokens / 50);  // so that lengths are odd and even in turn
  }
}

// Blocks behind five rejected rows are those behind one.
TEST_P(RejectedRows, AreNoContextOfTheDraftModule) {
  tools::Session session = OpenNano("cpu", 1);
  const Decoded five = Decode(&session, Prompt(), 5), one = Decode(&session, Prompt(), 1);
  ASSERT_NO_FATAL_FAILURE(ExpectSameBits(five, one));
  size_t compared = 0;
  for (size_t i = 0; i < std::min(five.verified.size(), one.verified.size()); ++i) {
    if (five.verified[i].accepted + one.verified[i].accepted > 0) break;  // no longer in step
    EXPECT_EQ(five.verified[i].raw, one.verified[i].raw) << i;
    ++compared;
  }
  EXPECT_GT(compared, 150u);
}

INSTANTIATE_TEST_SUITE_P(PromptLengths, RejectedRows, testing::Values(64, 141));

}  // namespace
}  // namespace thalweg::tests
