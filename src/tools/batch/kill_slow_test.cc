// Ten thousand lines, killed at five random moments: exactly one result for each, equal to those of
// a run that nobody disturbed.
#include "tools/batch/kill_kit.h"

namespace thalweg::tools::batch {
namespace {

TEST(BatchKillSlow, TenThousandLinesKilledFiveTimes) {
  ExpectKillsChangeNothing({.lines = 10000, .kills = 5, .max_tokens = 8, .seed = 3});
}

}  // namespace
}  // namespace thalweg::tools::batch
