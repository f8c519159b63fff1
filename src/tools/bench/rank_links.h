// What messages between threads of this process cost, what a rank's ops cost, and the step times
// that follow: for `thalweg bench ranks-decode`.
#pragma once

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "engine/options.h"
#include "parallel/statistics.h"
#include "sim/predict.h"
#include "tools/bench/costs.h"

namespace thalweg::tools::bench {

// Between `ranks` threads that exchange short and long messages with all others.
sim::Link MeasureThreadLink(int ranks);

struct RankLoad {
  int64_t ranks = 1;
  int64_t batch = 1;    // sequences of each rank
  int64_t context = 0;  // cached tokens of a sequence
};

// The checkpoint that options name, without what decode steps do not read.
Result<checkpoint::Checkpoint> OpenForSteps(const engine::EngineOptions& options);

// Sizes at which costs are measured that predict `batches` at `context`: others than those that are
// predicted, but for a single row, which nothing is smaller than, and other contexts on both sides.
CostsOptions CostsAround(const std::vector<int64_t>& batches, int64_t context);

// Costs of a model on one thread, now; with `exchange` of a rank that exchanges rows with itself,
// so that what ranks add is in them. Whole steps are those of an engine's executor (rank_steps.h),
// the least processor time of `repeats` runs.
Result<sim::Costs> CostsOfRank(const engine::EngineOptions& options,
                               const checkpoint::Checkpoint& checkpoint, bool exchange,
                               CostsOptions what, int64_t repeats);

// A decode step as `thalweg simulate` has it. `counts`: of experts.
Result<sim::Prediction> PredictDecode(const checkpoint::Config& config, const sim::Costs& costs,
                                      const sim::Link& link, const parallel::ExpertCounts& counts,
                                      const RankLoad& load);

}  // namespace thalweg::tools::bench
