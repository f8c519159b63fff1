#include "parallel/balance.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "base/check.h"
#include "parallel/packing.h"

namespace thalweg::parallel {
namespace {

// Experts in the order of nodes: those of the groups of node 0 first.
std::vector<int32_t> OrderByNode(std::span<const double> loads, int64_t groups, int64_t nodes) {
  const size_t group_size = loads.size() / static_cast<size_t>(groups);
  std::vector<double> group_loads;
  for (size_t begin = 0; begin < loads.size(); begin += group_size) {
    const auto group = loads.subspan(begin, group_size);
    group_loads.push_back(std::accumulate(group.begin(), group.end(), 0.0));
  }
  std::vector<int32_t> order;
  for (const int32_t group : Pack(group_loads, nodes))
    for (size_t i = 0; i < group_size; ++i)
      order.push_back(group * static_cast<int32_t>(group_size) + static_cast<int32_t>(i));
  return order;
}

// The experts of the slots of one node, which has `experts` and `ranks`.
std::vector<int32_t> BalanceNode(std::span<const int32_t> experts, std::span<const double> loads,
                                 int64_t ranks, int64_t slots) {
  std::vector<double> own;
  for (const int32_t expert : experts) own.push_back(loads[static_cast<size_t>(expert)]);
  const Replicas replicas = Replicate(own, slots);
  std::vector<double> replica_loads;
  for (const int32_t item : replicas.item) {
    const auto i = static_cast<size_t>(item);
    replica_loads.push_back(own[i] / replicas.count[i]);
  }
  std::vector<int32_t> packed;
  for (const int32_t replica : Pack(replica_loads, ranks)) {
    const int32_t item = replicas.item[static_cast<size_t>(replica)];
    packed.push_back(experts[static_cast<size_t>(item)]);
  }
  return packed;
}

Status CheckLoads(const std::vector<double>& loads, int64_t experts) {
  if (static_cast<int64_t>(loads.size()) != experts)
    return base::InvalidArgument(
        fmt::format("loads of {} experts, there are {}", loads.size(), experts));
  for (const double load : loads)
    if (!(load >= 0) || !std::isfinite(load))
      return base::InvalidArgument(fmt::format("a load of {}", load));
  return {};
}

}  // namespace

Status CheckBalanceShape(const BalanceShape& shape) {
  TW_TRY(CheckPlacement({shape.placement, {}}));
  const PlacementShape& p = shape.placement;
  if (shape.groups < 1 || p.experts % shape.groups != 0)
    return base::InvalidArgument(fmt::format("{} experts in {} groups", p.experts, shape.groups));
  if (shape.nodes < 1 || p.ranks % shape.nodes != 0)
    return base::InvalidArgument(fmt::format("{} ranks on {} nodes", p.ranks, shape.nodes));
  return {};
}

std::vector<int32_t> BalanceLayer(const BalanceShape& shape, std::span<const double> loads) {
  const PlacementShape& p = shape.placement;
  TW_CHECK_EQ(static_cast<int64_t>(loads.size()), p.experts);
  const bool hierarchical = shape.groups % shape.nodes == 0;
  const int64_t nodes = hierarchical ? shape.nodes : 1;
  const std::vector<int32_t> order = OrderByNode(loads, hierarchical ? shape.groups : 1, nodes);
  const size_t per_node = order.size() / static_cast<size_t>(nodes);
  std::vector<int32_t> slots;
  for (size_t n = 0; n < static_cast<size_t>(nodes); ++n) {
    const auto experts = std::span(order).subspan(n * per_node, per_node);
    const auto of_node = BalanceNode(experts, loads, p.ranks / nodes, p.slots() / nodes);
    slots.insert(slots.end(), of_node.begin(), of_node.end());
  }
  return slots;
}

Result<Placement> Balance(const BalanceShape& shape,
                          const std::vector<std::vector<double>>& loads) {
  TW_TRY(CheckBalanceShape(shape));
  Placement placement{shape.placement, {}};
  for (size_t i = 0; i < loads.size(); ++i) {
    const Status status = CheckLoads(loads[i], shape.placement.experts);
    if (!status.ok()) return status.WithContext(fmt::format("layer {}", i));
    placement.layers.push_back(BalanceLayer(shape, loads[i]));
  }
  return placement;
}

}  // namespace thalweg::parallel
