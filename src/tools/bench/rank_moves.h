// What it costs a step that experts move before it: runs with moves and runs without, of the same
// steps. Each step's cost is the least over some runs, so that what is left is the moves' doing and
// not the machine's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "engine/options.h"
#include "tools/bench/rank_steps.h"

namespace thalweg::tools::bench {

// One of the steps that something was done before.
struct MovedStep {
  int64_t step = 0;      // from 0
  double us = 0;         // inside the executor, with moves
  double worked_us = 0;  // of it before the step
  double still_us = 0;   // the same step without moves
};

struct MovesReport {
  int64_t repeats = 0;
  int64_t step_bytes = 0;  // that move before a step at most
  int64_t steps = 0;
  double median_us = 0;         // of the steps without moves
  double longest_still_us = 0;  // of those runs: what is left of the machine
  std::vector<MovedStep> moved = {};
  bool same_schedule = true;  // moves came before the same steps in every run
  bool same_tokens = true;
  engine::ExpertMetrics experts = {};

  const MovedStep* Longest() const;  // null: nothing moved
  double MeanRatio() const;          // of moved steps, over the same without moves
};

inline constexpr double kLongestStepBar = 1.3;  // over the median

// `options`: ranks, threads, rebalance_window and rebalance_bytes (0: 256 KiB, so that moves come
// before the same steps in every run).
Result<MovesReport> MeasureMoves(const engine::EngineOptions& options, const StepsLoad& load,
                                 int64_t repeats);

std::string ToTable(const MovesReport& report);
base::Json ToJson(const MovesReport& report);

}  // namespace thalweg::tools::bench
