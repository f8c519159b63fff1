// A rank killed or stopped at any of fifty moments: every other rank is gone within ten seconds,
// with the right words and exit codes, and no run hangs.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/ranks/kill.h"

namespace thalweg::tests {
namespace {

TEST(MpiSlow, AnyMomentIsSurvived) {
  for (uint32_t moment = 0; moment < 50; ++moment) {
    const auto draw = base::Philox4x32({moment, 0, 0, 0}, base::PhiloxKeyOf(9));
    const int ranks = 2 + static_cast<int>(draw[0] % 3);
    HarmOneRank({.ranks = ranks,
                 .victim = static_cast<int>(draw[1] % static_cast<uint32_t>(ranks)),
                 .harm = static_cast<Harm>(moment % 3),
                 .delay_ms = static_cast<int>(draw[2] % 400)});
  }
}

}  // namespace
}  // namespace thalweg::tests
