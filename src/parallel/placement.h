// Which expert lies in which slot of which rank. Slots of a layer are numbered through: rank r
// holds slots [r * slots_per_rank, (r + 1) * slots_per_rank). An expert may have several slots
// (replicas: bit-copies of its weights).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thalweg::parallel {

struct PlacementShape {
  int64_t experts = 0;  // of a layer
  int64_t ranks = 1;
  int64_t slots_per_rank = 0;

  int64_t slots() const { return ranks * slots_per_rank; }
  bool operator==(const PlacementShape&) const = default;
};

// As many slots as the experts need, and `spare` more on each rank. Errors: more ranks than
// experts, sizes out of range.
Result<PlacementShape> ShapeFor(int64_t experts, int64_t ranks, int64_t spare);

struct Placement {
  PlacementShape shape;
  std::vector<std::vector<int32_t>> layers;  // [layers][slots]: expert

  bool operator==(const Placement&) const = default;
};

// Experts in order, without a look at loads: the placement before anything was counted. Slots that
// are left over hold the first experts again.
Placement InOrder(const PlacementShape& shape, int64_t layers);

// ok when sizes are in range and every layer has every expert and nothing else; otherwise what is
// wrong and where.
Status CheckPlacement(const Placement& placement);

// As JSON, one layer a line; and back, checked.
std::string ToJson(const Placement& placement);
Result<Placement> ParsePlacement(std::string_view text, std::string_view what);
Result<Placement> ReadPlacement(const std::filesystem::path& path);

// The slots of each expert of one layer, ascending.
class ReplicaTable {
 public:
  ReplicaTable(std::span<const int32_t> expert_of_slot, int64_t experts);

  std::span<const int32_t> Slots(int64_t expert) const {
    return std::span(slots_).subspan(static_cast<size_t>(begin_[static_cast<size_t>(expert)]),
                                     static_cast<size_t>(Count(expert)));
  }
  int32_t Count(int64_t expert) const {
    return begin_[static_cast<size_t>(expert) + 1] - begin_[static_cast<size_t>(expert)];
  }
  // The slot that computes `expert` for a row: a function of where the row is and nothing else, so
  // that every run takes the same one. Replicas get equally many rows in the long run.
  int32_t Choose(int64_t expert, int source_rank, int64_t row) const;

 private:
  std::vector<int32_t> begin_;  // [experts + 1]
  std::vector<int32_t> slots_;
};

// Rows that each rank computes when each expert's load is shared equally by its replicas.
std::vector<double> RankLoads(std::span<const int32_t> expert_of_slot, const PlacementShape& shape,
                              std::span<const double> loads);
// The largest over the mean: 1 is perfect; 1 when there is no load.
double Imbalance(std::span<const double> rank_loads);

}  // namespace thalweg::parallel
