// What messages between threads of this process cost, and the step times that follow: for `thalweg
// bench ranks-decode`.
#pragma once

#include "base/status.h"
#include "engine/options.h"
#include "parallel/statistics.h"
#include "sim/cluster.h"

namespace thalweg::tools::bench {

// Between `ranks` threads that exchange short and long messages with all others.
sim::Link MeasureThreadLink(int ranks);

struct RankLoad {
  int64_t ranks = 1;
  int64_t batch = 1;    // sequences of each rank
  int64_t context = 0;  // cached tokens of a sequence
};

// Milliseconds of a decode step as `thalweg simulate` has them, from costs that are measured now on
// one thread. `counts`: of experts, in the load that is predicted.
Result<double> PredictStep(const engine::EngineOptions& options, const RankLoad& load,
                           const parallel::ExpertCounts& counts);

}  // namespace thalweg::tools::bench
