#include "parallel/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/math.h"
#include "parallel/limits.h"

namespace thalweg::parallel {
namespace {

// A good mixture of all bits (the finaliser of SplitMix64).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

Status CheckShape(const PlacementShape& s) {
  if (s.experts < 1 || s.experts > kMostExperts)
    return base::OutOfRange(
        fmt::format("{} experts: 1 to {} are possible", s.experts, kMostExperts));
  if (s.ranks < 1 || s.ranks > kMostRanks)
    return base::OutOfRange(fmt::format("{} ranks: 1 to {} are possible", s.ranks, kMostRanks));
  if (s.slots_per_rank < 1 || s.slots_per_rank > kMostSlots || s.slots() > kMostSlots)
    return base::OutOfRange(fmt::format("{} slots on each of {} ranks: {} in all are possible",
                                        s.slots_per_rank, s.ranks, kMostSlots));
  if (s.slots() < s.experts)
    return base::InvalidArgument(fmt::format("{} experts do not fit {} slots on each of {} ranks",
                                             s.experts, s.slots_per_rank, s.ranks));
  return {};
}

Status CheckLayer(const PlacementShape& shape, const std::vector<int32_t>& expert_of_slot) {
  if (static_cast<int64_t>(expert_of_slot.size()) != shape.slots())
    return base::InvalidArgument(
        fmt::format("{} slots, {} are due", expert_of_slot.size(), shape.slots()));
  std::vector<bool> there(static_cast<size_t>(shape.experts));
  for (const int32_t expert : expert_of_slot) {
    if (expert < 0 || expert >= shape.experts)
      return base::InvalidArgument(fmt::format("expert {} of {}", expert, shape.experts));
    there[static_cast<size_t>(expert)] = true;
  }
  const auto missing = std::find(there.begin(), there.end(), false);
  if (missing == there.end()) return {};
  return base::InvalidArgument(fmt::format("expert {} has no slot", missing - there.begin()));
}

}  // namespace

Result<PlacementShape> ShapeFor(int64_t experts, int64_t ranks, int64_t spare) {
  if (ranks > experts)
    return base::InvalidArgument(fmt::format(
        "{} ranks cannot share {} experts: use {} ranks at most", ranks, experts, experts));
  if (ranks < 1 || spare < 0)
    return base::InvalidArgument(fmt::format("{} ranks with {} spare slots", ranks, spare));
  if (spare > kMostSlots) return base::OutOfRange(fmt::format("{} spare slots", spare));
  const PlacementShape shape{experts, ranks, base::CeilDiv(experts, ranks) + spare};
  TW_TRY(CheckShape(shape));
  return shape;
}

Placement InOrder(const PlacementShape& shape, int64_t layers) {
  std::vector<int32_t> experts(static_cast<size_t>(shape.slots()));
  for (size_t i = 0; i < experts.size(); ++i)
    experts[i] = static_cast<int32_t>(i % static_cast<size_t>(shape.experts));
  return {shape, std::vector(static_cast<size_t>(layers), experts)};
}

Status CheckPlacement(const Placement& placement) {
  TW_TRY(CheckShape(placement.shape));
  if (static_cast<int64_t>(placement.layers.size()) > kMostLayers)
    return base::OutOfRange(
        fmt::format("{} layers: {} are possible", placement.layers.size(), kMostLayers));
  for (size_t i = 0; i < placement.layers.size(); ++i)
    if (Status status = CheckLayer(placement.shape, placement.layers[i]); !status.ok())
      return status.WithContext(fmt::format("layer {}", i));
  return {};
}

ReplicaTable::ReplicaTable(std::span<const int32_t> expert_of_slot, int64_t experts)
    : begin_(static_cast<size_t>(experts) + 1), slots_(expert_of_slot.size()) {
  for (const int32_t expert : expert_of_slot) ++begin_[static_cast<size_t>(expert) + 1];
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  std::vector<int32_t> next(begin_.begin(), begin_.end() - 1);
  for (size_t slot = 0; slot < expert_of_slot.size(); ++slot) {
    const auto expert = static_cast<size_t>(expert_of_slot[slot]);
    slots_[static_cast<size_t>(next[expert]++)] = static_cast<int32_t>(slot);
  }
}

int32_t ReplicaTable::Choose(int64_t expert, int source_rank, int64_t row) const {
  const std::span<const int32_t> slots = Slots(expert);
  if (slots.size() == 1) return slots.front();
  const uint64_t place = (static_cast<uint64_t>(source_rank) << 40) ^ static_cast<uint64_t>(row);
  return slots[Mix(place * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(expert)) % slots.size()];
}

std::vector<double> RankLoads(std::span<const int32_t> expert_of_slot, const PlacementShape& shape,
                              std::span<const double> loads) {
  TW_CHECK_EQ(static_cast<int64_t>(expert_of_slot.size()), shape.slots());
  TW_CHECK_EQ(static_cast<int64_t>(loads.size()), shape.experts);
  std::vector<int32_t> count(loads.size(), 0);
  for (const int32_t expert : expert_of_slot) ++count[static_cast<size_t>(expert)];
  std::vector<double> rank_loads(static_cast<size_t>(shape.ranks), 0.0);
  for (size_t slot = 0; slot < expert_of_slot.size(); ++slot) {
    const auto expert = static_cast<size_t>(expert_of_slot[slot]);
    rank_loads[slot / static_cast<size_t>(shape.slots_per_rank)] += loads[expert] / count[expert];
  }
  return rank_loads;
}

double Imbalance(std::span<const double> rank_loads) {
  const double sum = std::accumulate(rank_loads.begin(), rank_loads.end(), 0.0);
  if (!(sum > 0)) return 1;
  const double mean = sum / static_cast<double>(rank_loads.size());
  return *std::max_element(rank_loads.begin(), rank_loads.end()) / mean;
}

}  // namespace thalweg::parallel
