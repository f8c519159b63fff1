// Expert placement by load: EPLB (https://github.com/deepseek-ai/EPLB, spec/decoding.md 7.3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "parallel/placement.h"

namespace thalweg::parallel {

struct BalanceShape {
  PlacementShape placement;
  int64_t groups = 1;  // of experts that are routed to together; V4.1 has none
  int64_t nodes = 1;   // of ranks
};

// Sizes that the policies need: groups divide the experts; nodes divide the ranks, and the groups
// in the hierarchical policy.
Status CheckBalanceShape(const BalanceShape& shape);

// One layer: the expert of each slot. Hierarchical when nodes divide the groups and there are
// several nodes: groups are packed to nodes, experts replicated inside their node, replicas packed
// to its ranks. Global otherwise: the same with one group and one node. loads [experts], none
// negative. The shape must pass CheckBalanceShape.
std::vector<int32_t> BalanceLayer(const BalanceShape& shape, std::span<const double> loads);

// loads [layers][experts].
Result<Placement> Balance(const BalanceShape& shape, const std::vector<std::vector<double>>& loads);

}  // namespace thalweg::parallel
