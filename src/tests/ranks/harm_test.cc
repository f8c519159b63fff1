// A rank of the program that is killed or stopped, while it loads or while it works: the others are
// gone within ten seconds and name it, clients are answered, and lines that were answered are kept.
#include <gtest/gtest.h>

#include "tests/ranks/program_harm.h"

namespace thalweg::tests {
namespace {

TEST(ProgramHarm, AKilledRankOfBatch) {
  HarmProgram({.victim = 2, .harm = ProgramHarm::kKillUnnoticed, .delay_ms = 700, .again = true});
}

TEST(ProgramHarm, AStoppedRankOfBatch) {
  HarmProgram({.victim = 0, .harm = ProgramHarm::kStop, .delay_ms = 500});
}

TEST(ProgramHarm, ARankThatIsKilledWhileItLoads) {
  HarmProgram({.victim = 1, .harm = ProgramHarm::kKill});
}

TEST(ProgramHarm, AStoppedRankOfServe) {
  HarmProgram({.serve = true, .victim = 1, .harm = ProgramHarm::kStop, .delay_ms = 300});
}

}  // namespace
}  // namespace thalweg::tests
