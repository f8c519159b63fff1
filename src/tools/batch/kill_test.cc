// `thalweg batch`, killed at random moments and started again, ends with exactly one result for
// each line, equal to those of a run that nobody disturbed.
#include "tools/batch/kill_kit.h"

namespace thalweg::tools::batch {
namespace {

TEST(BatchKill, KilledFiveTimes) {
  ExpectKillsChangeNothing({.lines = 300, .kills = 5, .max_tokens = 12, .seed = 1});
}

TEST(BatchKill, AskedToStopFiveTimes) {
  ExpectKillsChangeNothing(
      {.lines = 300, .kills = 5, .signal = SIGTERM, .max_tokens = 12, .seed = 2});
}

}  // namespace
}  // namespace thalweg::tools::batch
