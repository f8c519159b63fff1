// What a rank's ops cost on this machine: for `thalweg bench ranks-decode`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "engine/options.h"
#include "sim/costs.h"
#include "tools/bench/costs.h"
#include "tools/bench/trace.h"

namespace thalweg::tools::bench {

// The checkpoint that options name, without what decode steps do not read.
Result<checkpoint::Checkpoint> OpenForSteps(const engine::EngineOptions& options);

// Sizes at which costs are measured that predict `batches` at `context`: others than those that are
// predicted, but for a single row, which nothing is smaller than, and other contexts on both sides.
CostsOptions CostsAround(const std::vector<int64_t>& batches, int64_t context);

// Costs of one rank of one thread. A rank of several exchanges rows with itself, so that what ranks
// add is in them, while neighbours do the same beside it on threads of their own: caches, memory
// and clocks are shared as in a step of all. Whole steps are those of an engine's executor, by the
// processor time of its thread (rank_steps.h).
class RankCosts {
 public:
  // `trace` (of the options' backend) and the checkpoint outlive this.
  static Result<std::unique_ptr<RankCosts>> Make(const engine::EngineOptions& options,
                                                 const checkpoint::Checkpoint& checkpoint,
                                                 OpTrace* trace, int64_t ranks, CostsOptions at);
  ~RankCosts();

  // A round of samples. `between` runs before those of each size, and neighbours rest meanwhile.
  Status Round(const std::function<Status()>& between);
  // After at least one round.
  Result<sim::Costs> Costs() const;

 private:
  class Parts;
  explicit RankCosts(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace thalweg::tools::bench
