// The figures of a shift are those of their definitions, nothing shifts against itself, and on nano
// halo gives the bits of full while compact, and a hit with one window of replay, do not.
#include "tools/shift.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/backends.h"
#include "tools/session.h"

namespace thalweg::tools {
namespace {

TEST(ShiftFigures, AreThoseOfTheirDefinitions) {
  ShiftFigures figures;
  const std::vector<float> p = {std::log(0.5f), std::log(0.25f), std::log(0.25f)};
  const std::vector<float> q = {std::log(0.25f) + 3, std::log(0.5f) + 3, std::log(0.25f) + 3};
  figures.Add(p, q, 1);
  EXPECT_NEAR(figures.kl_sum, 0.5 * std::log(2.0) - 0.25 * std::log(2.0), 1e-6);
  EXPECT_NEAR(figures.nll, std::log(2.0), 1e-6);
  EXPECT_EQ(figures.same_top, 0);
  figures.Add(p, p, 0);
  EXPECT_EQ(figures.same_top, 1);
  EXPECT_EQ(figures.tokens, 2);
  EXPECT_NEAR(figures.kl_max, 0.25 * std::log(2.0), 1e-6);
}

TEST(Shift, HaloIsFullAndTheOthersAreNot) {
  const auto folder = std::filesystem::path(THALWEG_SOURCE_DIR) / "models/nano";
  SessionOptions options;
  options.folder = folder;
  options.backend = "cpu";
  options.threads = 1;
  options.max_sequences = 2;
  options.max_tokens = 1024;
  options.blocks_from_outside = true;
  Session session = OpenSession(options).value();
  const ShiftOptions shift{.prompt_tokens = 300, .follow_tokens = 3, .own_tokens = 20};
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 303; ++i) ids.push_back(100 + i * 37 % 5000);
  const auto compact =
      model::Replay::Make(model::ReplayMode::kCompact, {}, session.config()).value();
  std::vector<float> full;
  for (const ShiftVariant& variant : ShiftVariants(compact)) {
    const auto logits = LogitsBehindPrompt(*session.model, ids, variant, shift).value();
    ASSERT_EQ(logits.size(), 3 * static_cast<size_t>(session.config().vocab_size));
    if (variant.name == "full") full = logits;
    EXPECT_EQ(logits == full, variant.name == "full" || variant.name == "halo") << variant.name;
  }
}

}  // namespace
}  // namespace thalweg::tools
