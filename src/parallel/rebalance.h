// From one placement to another while the engine works: whether it is worth it, and which weights
// move. A pure function, so that every rank that knows the counts comes to the same plan.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/balance.h"
#include "parallel/statistics.h"

namespace thalweg::parallel {

// The weights of `expert` are copied from slot `from` to slot `to` of a layer. Slots of the old
// placement are read; they may be overwritten once all moves of the layer are done.
struct Move {
  int32_t layer = 0;
  int32_t expert = 0;
  int32_t from = 0;
  int32_t to = 0;
  bool operator==(const Move&) const = default;
};

// Hysteresis: what does not help enough stays as it is.
struct RebalanceRules {
  double least_imbalance = 1.10;  // of the old placement, largest over mean load of a rank
  double least_gain = 0.05;       // by which the new one is better
  int64_t least_rows = 1000;      // counted; fewer say little
};

struct RebalancePlan {
  Placement placement;           // new; layers that stay are the old ones
  std::vector<int32_t> changed;  // layers, ascending
  std::vector<Move> moves;       // by layer, then by slot
};

// The shape, groups and nodes are those of the old placement. Replicas are put where they lie
// already as far as ranks may be exchanged (within nodes), so that little moves.
Result<RebalancePlan> PlanRebalance(const BalanceShape& shape, const Placement& old,
                                    const ExpertCounts& counts, const RebalanceRules& rules);

// The same experts in each pack, ranks exchanged within nodes and slots within ranks so that many
// slots keep their expert.
std::vector<int32_t> AlignTo(const std::vector<int32_t>& old, const std::vector<int32_t>& wanted,
                             const PlacementShape& shape, int64_t nodes);

// Copies that make `wanted` of `old`; from the rank itself where it has the expert, otherwise from
// the holder that has sent least, the first slot on ties.
std::vector<Move> MovesBetween(int32_t layer, const std::vector<int32_t>& old,
                               const std::vector<int32_t>& wanted, const PlacementShape& shape);

}  // namespace thalweg::parallel
