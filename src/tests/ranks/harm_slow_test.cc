// Any rank of `mpirun -n 3 thalweg batch` or `serve`, killed or stopped at fifty moments between
// the start and the end of its work: nobody hangs.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/ranks/program_harm.h"

namespace thalweg::tests {
namespace {

TEST(ProgramHarmSlow, AnyMomentIsSurvived) {
  for (uint32_t moment = 0; moment < 50; ++moment) {
    const auto draw = base::Philox4x32({moment, 0, 0, 0}, base::PhiloxKeyOf(21));
    HarmProgram({.serve = moment % 5 >= 3,
                 .victim = static_cast<int>(draw[0] % 3),
                 .harm = static_cast<ProgramHarm>(moment % 3),
                 .delay_ms = static_cast<int>(draw[1] % 1500),
                 .again = moment % 10 == 0});
  }
}

}  // namespace
}  // namespace thalweg::tests
