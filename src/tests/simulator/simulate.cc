// thalweg_simulate [FIRST_SEED] [STEPS] [STEPS_PER_SEED]: the simulator for as long as one likes.
// Prints the seed of every history that breaks a promise; exit code 1 if there was one.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <string_view>

#include "tests/simulator/simulation.h"

namespace thalweg::tests {
namespace {

uint64_t Number(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

int Run(uint64_t seed, uint64_t steps, uint64_t steps_per_seed) {
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t first = seed;
  SimulationReport sum;
  int broken = 0;
  for (; sum.steps < steps; ++seed) {
    const SimulationReport report = Simulate(seed, steps_per_seed);
    sum.steps += report.steps;
    sum.sequences += report.sequences;
    sum.tokens += report.tokens;
    sum.stats.preempted += report.stats.preempted;
    if (report.problem.empty()) continue;
    ++broken;
    fmt::print("seed {}, step {}: {}\n", seed, report.steps, report.problem);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print(
      "seeds {} to {}: {} steps, {} sequences, {} tokens, {} preemptions, {} broken; {:.1f} s, "
      "{:.0f} steps a minute\n",
      first, seed - 1, sum.steps, sum.sequences, sum.tokens, sum.stats.preempted, broken, seconds,
      static_cast<double>(sum.steps) / seconds * 60);
  return broken == 0 ? 0 : 1;
}

}  // namespace
}  // namespace thalweg::tests

int main(int argc, char** argv) {
  const auto argument = [&](int i, uint64_t fallback) {
    return argc > i ? thalweg::tests::Number(argv[i]) : fallback;
  };
  return thalweg::tests::Run(argument(1, 1), argument(2, 100'000), argument(3, 2000));
}
