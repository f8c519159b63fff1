// The drafts of the shipped checkpoint are accepted as often as published (tests/data/nano/
// eval.json), and its confidences foretell acceptance as well as published and rank it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "spec/confidence.h"
#include "spec/quality.h"
#include "tests/drafts/drafted_loop.h"
#include "tests/nano/nano_files.h"

namespace thalweg::tests {
namespace {

constexpr size_t kSlots = 5;
constexpr int64_t kTokens = 128;  // of each continuation, as published

struct Replay {
  int64_t steps = 0;
  int64_t tokens = 0;  // behind the first of each
  std::vector<spec::VerifiedBlock> blocks = {};
};

Replay DecodeAll(const base::Json& prompts) {
  tools::Session session = OpenNano("cpu", 1);
  Replay replay;
  for (size_t i = 0; i < prompts.size(); ++i) {
    step::SamplingParams params = {.temperature = 0};
    params.end_tokens = session.EndTokens();
    DraftedLoop loop(&session, true);
    const auto ids = prompts[i]["ids"].get<std::vector<int32_t>>();
    EXPECT_TRUE(loop.Add(ids, params, spec::Rule::kTarget, kTokens).ok());
    EXPECT_TRUE(loop.Run([](size_t, int64_t) { return int64_t{kSlots}; }).ok());
    const DraftedSequence& s = loop.sequences()[0];
    replay.steps += s.steps;
    replay.tokens += static_cast<int64_t>(s.samples.size()) - 1;
    replay.blocks.insert(replay.blocks.end(), s.verified.begin(), s.verified.end());
  }
  return replay;
}

// Each confidence in a draft that was reached, with what became of it.
std::vector<spec::Prediction> Reached(std::span<const spec::VerifiedBlock> blocks) {
  std::vector<spec::Prediction> all;
  for (const spec::VerifiedBlock& b : blocks) {
    for (int64_t k = 0; k < std::min(b.accepted + 1, b.verified); ++k)
      all.push_back({spec::Confidence(b.raw[static_cast<size_t>(k)], 1, 0), k < b.accepted});
  }
  return all;
}

TEST(DraftAcceptance, IsAsPublished) {
  const base::Json prompts = ReadJson(SourceDir() / "tests/data/nano/prompts.json");
  const base::Json published = ReadJson(SourceDir() / "tests/data/nano/eval.json")["draft"];
  ASSERT_EQ(prompts.size(), 120u);
  const Replay replay = DecodeAll(prompts);
  const auto per_step = published["tokens_per_step"].get<double>();
  const double ours = static_cast<double>(replay.tokens) / static_cast<double>(replay.steps);
  const double brier = spec::BrierScore(Reached(replay.blocks));
  fmt::print("{} tokens in {} steps: {:.3f} a step (published {:.3f}); Brier {:.4f}\n",
             replay.tokens, replay.steps, ours, per_step, brier);
  EXPECT_NEAR(ours, per_step, 0.04 * per_step);
  EXPECT_NEAR(brier, published["confidence_brier"].get<double>(), 0.01);
  for (size_t k = 0; k < kSlots; ++k) {
    const auto p = spec::SurvivalPredictions(replay.blocks, k, {});
    double survived = 0;
    for (const spec::Prediction& one : p) survived += one.happened ? 1 : 0;
    fmt::print("slot {}: survival {:.3f} of {}, ECE {:.3f}, AUC {:.3f}\n", k + 1,
               survived / static_cast<double>(p.size()), p.size(), spec::CalibrationError(p),
               spec::AreaUnderCurve(p));
    EXPECT_GT(spec::AreaUnderCurve(p), 0.77) << k;
    EXPECT_LT(spec::CalibrationError(p), 0.2) << k;  // raw: errors of all slots before add up
  }
}

// Tokens a step with a temperature, over some of the prompts.
double TokensPerStep(tools::Session* session, const base::Json& prompts, double temperature,
                     spec::Rule rule) {
  int64_t steps = 0, tokens = 0;
  for (size_t i = 0; i < prompts.size(); i += 4) {
    step::SamplingParams params = {.temperature = temperature, .top_p = 0.95, .seed = i};
    params.end_tokens = session->EndTokens();
    DraftedLoop loop(session, true);
    const auto ids = prompts[i]["ids"].get<std::vector<int32_t>>();
    EXPECT_TRUE(loop.Add(ids, params, rule, 96).ok());
    EXPECT_TRUE(loop.Run([](size_t, int64_t) { return int64_t{kSlots}; }).ok());
    steps += loop.sequences()[0].steps;
    tokens += static_cast<int64_t>(loop.sequences()[0].samples.size()) - 1;
  }
  return static_cast<double>(tokens) / static_cast<double>(steps);
}

// Drafts with the target's own noise lose little, if anything, against rejection sampling.
TEST(DraftAcceptance, SharedNoiseAcceptsAsManyAsRejection) {
  const base::Json prompts = ReadJson(SourceDir() / "tests/data/nano/prompts.json");
  tools::Session session = OpenNano("cpu", 1);
  for (const double temperature : {0.6, 1.0}) {
    const double target = TokensPerStep(&session, prompts, temperature, spec::Rule::kTarget);
    const double rejection = TokensPerStep(&session, prompts, temperature, spec::Rule::kRejection);
    fmt::print("temperature {}: {:.2f} tokens a step with shared noise, {:.2f} by rejection\n",
               temperature, target, rejection);
    EXPECT_GT(target, 0.93 * rejection);
  }
}

}  // namespace
}  // namespace thalweg::tests
