// Rotation frequencies are those of the release to 2e-7, and the clamps of small sizes hold
// (spec/model.md 2.4).
#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "base/mapped_file.h"

namespace thalweg::model {
namespace {

using checkpoint::Config;

constexpr const char* kData = THALWEG_SOURCE_DIR "/tests/data/";

Config Released() { return Config::Load(std::string(kData) + "released_config.json").value(); }

base::Json Constants() {
  const std::string path = std::string(kData) + "real_constants.json";
  return base::ParseJson(base::ReadFile(path, 1 << 20).value(), path).value();
}

void ExpectNear(const std::vector<float>& actual, const base::Json& expected) {
  ASSERT_EQ(actual.size(), 32u);
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t p = 0; p < actual.size(); ++p)
    EXPECT_NEAR(actual[p], expected[p].get<double>(), 2e-7) << p;
}

TEST(Rope, FrequenciesOfTheRelease) {
  const base::Json expected = Constants()["rope_inv_freq"];
  const RopeFrequencies made = MakeRopeFrequencies(Released());
  ExpectNear(made.plain, expected.at("ratio0_theta10000"));
  ExpectNear(made.compressed, expected.at("compressed_theta160000_yarn16"));
}

Config Small(int64_t dim, int64_t original) {
  Config c;
  c.qk_rope_head_dim = dim;
  c.rope_theta = 10000;
  c.compress_rope_theta = 160000;
  c.rope_scaling = {
      .factor = 16, .beta_fast = 32, .beta_slow = 1, .original_max_position_embeddings = original};
  return c;
}

// Over 64 positions the fast pair lies below 0 and the slow one at ceil(1.55) = 2: the ramp is
// 0, 1/2, 1, 1, ...
TEST(Rope, TheRampStartsAtZeroAtTheEarliest) {
  const Config c = Small(16, 64);
  const RopeFrequencies made = MakeRopeFrequencies(c);
  ASSERT_EQ(made.compressed.size(), 8u);
  for (size_t p = 0; p < 8; ++p) {
    const double base = std::pow(160000.0, -static_cast<double>(p) / 8);
    const double ramp = std::min(static_cast<double>(p) / 2, 1.0);
    EXPECT_NEAR(made.compressed[p] / (base / 16 * ramp + base * (1 - ramp)), 1, 1e-6) << p;
  }
}

// With a small base the slow pair lies behind the end: the ramp stops at dim - 1, not at dim / 2 -
// 1, so it is p / 7.
TEST(Rope, TheRampEndsAtTheLastDimensionAtTheLatest) {
  Config c = Small(8, 64);
  c.compress_rope_theta = 3;
  const RopeFrequencies made = MakeRopeFrequencies(c);
  for (size_t p = 0; p < 4; ++p) {
    const double base = std::pow(3.0, -static_cast<double>(p) / 4);
    const double ramp = static_cast<double>(p) / 7;
    EXPECT_NEAR(made.compressed[p] / (base / 16 * ramp + base * (1 - ramp)), 1, 1e-6) << p;
  }
}

TEST(Rope, AnglesAreInFloat) {
  Angles angles;
  const int64_t positions[] = {0, 1, 1000003};
  angles.Set(positions, {1.0f, 0.1f});
  const kernels::Rotation r = angles.rotation();
  EXPECT_EQ(r.rope_dim, 4);
  for (int row = 0; row < 3; ++row) {
    for (int p = 0; p < 2; ++p) {
      const float angle = static_cast<float>(positions[row]) * (p == 0 ? 1.0f : 0.1f);
      EXPECT_EQ(r.cos[row * 2 + p], std::cos(angle));
      EXPECT_EQ(r.sin[row * 2 + p], std::sin(angle));
    }
  }
}

}  // namespace
}  // namespace thalweg::model
