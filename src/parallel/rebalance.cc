#include "parallel/rebalance.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace thalweg::parallel {
namespace {

using Slots = std::vector<int32_t>;

std::span<const int32_t> OfRank(const Slots& slots, int64_t rank, int64_t per_rank) {
  return std::span(slots).subspan(static_cast<size_t>(rank * per_rank),
                                  static_cast<size_t>(per_rank));
}

// How many slots could keep their expert.
int64_t Overlap(std::span<const int32_t> a, std::span<const int32_t> b) {
  Slots x(a.begin(), a.end()), y(b.begin(), b.end()), both;
  std::sort(x.begin(), x.end());
  std::sort(y.begin(), y.end());
  std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
  return static_cast<int64_t>(both.size());
}

struct Match {
  int64_t overlap, rank, pack;
};

// Which pack goes to which of the ranks from `first` on: the largest overlaps first.
void MatchNode(const Slots& old, const Slots& wanted, int64_t per_rank, int64_t first,
               int64_t ranks, std::vector<int64_t>* pack_of_rank) {
  std::vector<Match> matches;
  for (int64_t rank = first; rank < first + ranks; ++rank)
    for (int64_t pack = first; pack < first + ranks; ++pack)
      matches.push_back(
          {Overlap(OfRank(old, rank, per_rank), OfRank(wanted, pack, per_rank)), rank, pack});
  std::stable_sort(matches.begin(), matches.end(),
                   [](const Match& a, const Match& b) { return a.overlap > b.overlap; });
  std::vector<bool> taken(pack_of_rank->size());
  for (const Match& match : matches) {
    int64_t& pack = (*pack_of_rank)[static_cast<size_t>(match.rank)];
    if (pack >= 0 || taken[static_cast<size_t>(match.pack)]) continue;
    pack = match.pack;
    taken[static_cast<size_t>(match.pack)] = true;
  }
}

// The experts of `pack` in an order that keeps those of `old` where they are.
Slots KeepPlaces(std::span<const int32_t> old, std::span<const int32_t> pack) {
  Slots left(pack.begin(), pack.end());
  Slots placed(old.size(), -1);
  for (size_t i = 0; i < old.size(); ++i) {
    const auto at = std::find(left.begin(), left.end(), old[i]);
    if (at == left.end()) continue;
    placed[i] = *at;
    left.erase(at);
  }
  auto next = left.begin();
  for (int32_t& expert : placed)
    if (expert < 0) expert = *next++;
  return placed;
}

// What each rank has sent so far decides who sends next.
int32_t SourceOf(std::span<const int32_t> holders, int64_t to_rank, int64_t per_rank,
                 std::vector<int64_t>* sent) {
  int32_t best = holders.front();
  for (const int32_t slot : holders) {
    const int64_t rank = slot / per_rank;
    if (rank == to_rank) return slot;
    if ((*sent)[static_cast<size_t>(rank)] < (*sent)[static_cast<size_t>(best / per_rank)])
      best = slot;
  }
  ++(*sent)[static_cast<size_t>(best / per_rank)];
  return best;
}

bool WorthIt(const Slots& old, const Slots& wanted, const PlacementShape& shape,
             std::span<const double> loads, const RebalanceRules& rules) {
  const double before = Imbalance(RankLoads(old, shape, loads));
  const double after = Imbalance(RankLoads(wanted, shape, loads));
  return before >= rules.least_imbalance && before - after >= rules.least_gain;
}

Status CheckSame(const BalanceShape& shape, const Placement& old, const ExpertCounts& counts) {
  TW_TRY(CheckBalanceShape(shape));
  TW_TRY(CheckPlacement(old));
  if (!(old.shape == shape.placement))
    return base::InvalidArgument("the placement has another shape");
  if (counts.experts != old.shape.experts || counts.layers.size() != old.layers.size())
    return base::InvalidArgument(
        fmt::format("counts of {} layers of {} experts for a placement of {} layers of {}",
                    counts.layers.size(), counts.experts, old.layers.size(), old.shape.experts));
  return {};
}

}  // namespace

std::vector<int32_t> AlignTo(const Slots& old, const Slots& wanted, const PlacementShape& shape,
                             int64_t nodes) {
  TW_CHECK_EQ(shape.ranks % nodes, int64_t{0});
  std::vector<int64_t> pack_of_rank(static_cast<size_t>(shape.ranks), -1);
  const int64_t ranks = shape.ranks / nodes;
  for (int64_t node = 0; node < nodes; ++node)
    MatchNode(old, wanted, shape.slots_per_rank, node * ranks, ranks, &pack_of_rank);
  Slots aligned;
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    const int64_t pack = pack_of_rank[static_cast<size_t>(rank)];
    const Slots placed = KeepPlaces(OfRank(old, rank, shape.slots_per_rank),
                                    OfRank(wanted, pack, shape.slots_per_rank));
    aligned.insert(aligned.end(), placed.begin(), placed.end());
  }
  return aligned;
}

std::vector<Move> MovesBetween(int32_t layer, const Slots& old, const Slots& wanted,
                               const PlacementShape& shape) {
  const ReplicaTable holders(old, shape.experts);
  std::vector<int64_t> sent(static_cast<size_t>(shape.ranks));
  std::vector<Move> moves;
  for (size_t slot = 0; slot < wanted.size(); ++slot) {
    if (old[slot] == wanted[slot]) continue;
    const auto to = static_cast<int32_t>(slot);
    const int32_t from = SourceOf(holders.Slots(wanted[slot]), to / shape.slots_per_rank,
                                  shape.slots_per_rank, &sent);
    moves.push_back({layer, wanted[slot], from, to});
  }
  return moves;
}

Result<RebalancePlan> PlanRebalance(const BalanceShape& shape, const Placement& old,
                                    const ExpertCounts& counts, const RebalanceRules& rules) {
  TW_TRY(CheckSame(shape, old, counts));
  RebalancePlan plan{old, {}, {}};
  if (counts.rows < rules.least_rows) return plan;
  const auto loads = counts.Loads();
  const bool hierarchical = shape.groups % shape.nodes == 0;
  for (size_t i = 0; i < loads.size(); ++i) {
    const Slots wanted = AlignTo(old.layers[i], BalanceLayer(shape, loads[i]), shape.placement,
                                 hierarchical ? shape.nodes : 1);
    if (!WorthIt(old.layers[i], wanted, shape.placement, loads[i], rules)) continue;
    const auto layer = static_cast<int32_t>(i);
    const auto moves = MovesBetween(layer, old.layers[i], wanted, shape.placement);
    plan.moves.insert(plan.moves.end(), moves.begin(), moves.end());
    plan.changed.push_back(layer);
    plan.placement.layers[i] = wanted;
  }
  return plan;
}

}  // namespace thalweg::parallel
