// What messages between threads of this process cost, and the step times that follow from costs and
// links: for `thalweg bench ranks-decode`.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "parallel/statistics.h"
#include "sim/predict.h"

namespace thalweg::tools::bench {

// A link between `ranks` threads that exchange messages with all others, as ranks do in a layer:
// each works for a while, which leaves its caches as work does, before it sends. An exchange takes
// from when the last of them begins it to when the last has what it gets; that of short messages is
// the latency, and what long ones take longer goes by their bytes. Medians over all rounds count.
class LinkMeasurement {
 public:
  explicit LinkMeasurement(int ranks) : ranks_(ranks) {}

  // With new threads: where the machine puts them is part of what differs.
  void Round();
  // After at least one round. One rank has no link.
  sim::Link Link() const;

 private:
  int ranks_;
  std::vector<double> short_us_, long_us_;
};

struct RankLoad {
  int64_t ranks = 1;
  int64_t batch = 1;    // sequences of each rank
  int64_t context = 0;  // cached tokens of a sequence
};

// A decode step as `thalweg simulate` has it. `counts`: of experts.
Result<sim::Prediction> PredictDecode(const checkpoint::Config& config, const sim::Costs& costs,
                                      const sim::Link& link, const parallel::ExpertCounts& counts,
                                      const RankLoad& load);

}  // namespace thalweg::tools::bench
