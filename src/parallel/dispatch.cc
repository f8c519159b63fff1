#include "parallel/dispatch.h"

#include <fmt/format.h>

#include "base/check.h"
#include "parallel/limits.h"

namespace thalweg::parallel {
namespace {

constexpr int64_t kScaleGroup = 32;  // channels that share a scale

struct Target {
  int rank;
  DispatchEntry entry;
};

// Of every choice, [rows * topk].
std::vector<Target> TargetsOf(const RoutedRows& routed, const ReplicaTable& replicas,
                              const PlacementShape& shape) {
  std::vector<Target> targets;
  targets.reserve(routed.chosen.size());
  for (int64_t row = 0; row < routed.rows; ++row) {
    for (int64_t i = 0; i < routed.topk; ++i) {
      const int32_t expert = routed.chosen[static_cast<size_t>(row * routed.topk + i)];
      const int32_t slot = replicas.Choose(expert, routed.source_rank, routed.first_row + row);
      targets.push_back(
          {static_cast<int>(slot / shape.slots_per_rank),
           {static_cast<int32_t>(i), static_cast<int32_t>(slot % shape.slots_per_rank)}});
    }
  }
  return targets;
}

// Adds what one row sends to one rank, if anything. targets: of this row.
void AddRow(int64_t row, int rank, std::span<const Target> targets, DispatchPlan* plan) {
  const size_t before = plan->entries.size();
  for (const Target& target : targets) {
    if (target.rank != rank) continue;
    const size_t choice =
        static_cast<size_t>(row) * targets.size() + static_cast<size_t>(target.entry.choice);
    plan->returned_at[choice] = static_cast<int32_t>(plan->entries.size());
    plan->entries.push_back(target.entry);
  }
  if (plan->entries.size() == before) return;
  plan->rows.push_back(static_cast<int32_t>(row));
  plan->entry_begin.push_back(static_cast<int32_t>(plan->entries.size()));
}

}  // namespace

int64_t DispatchPlan::RowsTo(int rank) const {
  const auto r = static_cast<size_t>(rank);
  return row_begin[r + 1] - row_begin[r];
}

int64_t DispatchPlan::EntriesTo(int rank) const {
  const auto r = static_cast<size_t>(rank);
  return entry_begin[static_cast<size_t>(row_begin[r + 1])] -
         entry_begin[static_cast<size_t>(row_begin[r])];
}

DispatchPlan PlanDispatch(const RoutedRows& routed, const ReplicaTable& replicas,
                          const PlacementShape& shape) {
  TW_CHECK_LE(routed.topk, kMostTopExperts);
  TW_CHECK_EQ(static_cast<int64_t>(routed.chosen.size()), routed.rows * routed.topk);
  const std::vector<Target> targets = TargetsOf(routed, replicas, shape);
  const auto topk = static_cast<size_t>(routed.topk);
  DispatchPlan plan;
  plan.entries.reserve(targets.size());
  plan.row_begin = {0};
  plan.entry_begin = {0};
  plan.returned_at.assign(routed.chosen.size(), -1);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    for (int64_t row = 0; row < routed.rows; ++row)
      AddRow(row, rank, std::span(targets).subspan(static_cast<size_t>(row) * topk, topk), &plan);
    plan.row_begin.push_back(static_cast<int32_t>(plan.rows.size()));
  }
  return plan;
}

std::vector<DispatchCounts> CountsOf(const DispatchPlan& plan) {
  std::vector<DispatchCounts> counts;
  for (int rank = 0; rank + 1 < static_cast<int>(plan.row_begin.size()); ++rank)
    counts.push_back(
        {static_cast<int32_t>(plan.RowsTo(rank)), static_cast<int32_t>(plan.EntriesTo(rank))});
  return counts;
}

Status CheckCapacity(const DispatchPlan& plan, int64_t rows) {
  for (int rank = 0; rank + 1 < static_cast<int>(plan.row_begin.size()); ++rank)
    if (plan.RowsTo(rank) > rows)
      return base::ResourceExhausted(fmt::format("{} rows go to rank {}, there is room for {}",
                                                 plan.RowsTo(rank), rank, rows));
  return {};
}

EpBytes FormulaBytes(const DispatchPlan& plan, int source_rank, int64_t hidden) {
  EpBytes bytes;
  for (int rank = 0; rank + 1 < static_cast<int>(plan.row_begin.size()); ++rank) {
    if (rank == source_rank) continue;
    bytes.dispatch += plan.RowsTo(rank) * (hidden + hidden / kScaleGroup);
    bytes.combine += plan.EntriesTo(rank) * 2 * hidden;
  }
  return bytes;
}

EpBytes PlannedBytes(const DispatchPlan& plan, int source_rank, int64_t hidden, int64_t row_bytes) {
  EpBytes bytes;
  const auto counts = CountsOf(plan);
  for (int rank = 0; rank < static_cast<int>(counts.size()); ++rank) {
    if (rank == source_rank) continue;
    bytes.dispatch += MessageBytes(counts[static_cast<size_t>(rank)], row_bytes);
    bytes.combine += plan.EntriesTo(rank) * 2 * hidden;
  }
  return bytes;
}

}  // namespace thalweg::parallel
