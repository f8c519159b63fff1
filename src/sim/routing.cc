#include "sim/routing.h"

#include <algorithm>

#include "base/check.h"
#include "base/rng.h"

namespace thalweg::sim {
namespace {

constexpr double kLeastShare = 1e-6;  // of the mean: so that there are always enough experts
constexpr int kMostTries = 64;

bool Holds(std::span<const int32_t> chosen, int32_t expert) {
  return std::find(chosen.begin(), chosen.end(), expert) != chosen.end();
}

// Random numbers in (0, 1) for one row.
class Draws {
 public:
  Draws(int64_t row, uint32_t layer, uint32_t sample)
      : counter_{static_cast<uint32_t>(row), 0, layer, sample} {}

  double Next() {
    if (used_ == 4) {
      words_ = base::Philox4x32(counter_, {0x73696d75, 0});
      ++counter_[1];
      used_ = 0;
    }
    return base::OpenUnit(words_[used_++]);
  }

 private:
  base::PhiloxCounter counter_;
  base::PhiloxCounter words_ = {};
  size_t used_ = 4;
};

void AddBytes(const TrafficShape& shape, int from, int to, int64_t bytes,
              std::vector<RankTraffic>* ranks) {
  RankTraffic& source = (*ranks)[static_cast<size_t>(from)];
  RankTraffic& target = (*ranks)[static_cast<size_t>(to)];
  const bool in_node = from / shape.node_ranks == to / shape.node_ranks;
  (in_node ? source.sent_in_node : source.sent_between) += bytes;
  (in_node ? target.received_in_node : target.received_between) += bytes;
}

// What one rank sends and gets back, and whose slots its rows load.
void AddRank(const TrafficShape& shape, const parallel::DispatchPlan& plan, int source,
             LayerTraffic* traffic) {
  const int64_t row_bytes = shape.hidden + shape.hidden / 32;
  for (int to = 0; to < static_cast<int>(shape.placement.ranks); ++to) {
    const auto rank = static_cast<size_t>(to);
    const auto first = static_cast<size_t>(plan.row_begin[rank]);
    const auto end = static_cast<size_t>(plan.row_begin[rank + 1]);
    for (int32_t e = plan.entry_begin[first]; e < plan.entry_begin[end]; ++e) {
      const auto slot = static_cast<size_t>(plan.entries[static_cast<size_t>(e)].local_slot);
      ++traffic->dispatch[rank].slot_rows[slot];
    }
    if (to == source) continue;
    const int64_t out = plan.RowsTo(to) * row_bytes;
    const int64_t back = plan.EntriesTo(to) * 2 * shape.hidden;
    AddBytes(shape, source, to, out, &traffic->dispatch);
    AddBytes(shape, to, source, back, &traffic->combine);
    traffic->bytes += out + back;
  }
}

}  // namespace

Router::Router(std::span<const int64_t> counts, int64_t topk) : topk_(topk) {
  TW_CHECK_GE(static_cast<int64_t>(counts.size()), topk);
  double all = 0;
  for (const int64_t count : counts) all += static_cast<double>(count);
  const double least = std::max(all / static_cast<double>(counts.size()) * kLeastShare, 1e-9);
  double sum = 0;
  for (const int64_t count : counts)
    sums_.push_back(sum += std::max(static_cast<double>(count), least));
}

std::vector<int32_t> Router::Draw(int64_t rows, uint32_t layer, uint32_t sample) const {
  std::vector<int32_t> chosen;
  chosen.reserve(static_cast<size_t>(rows * topk_));
  const auto last = static_cast<int32_t>(sums_.size()) - 1;
  for (int64_t row = 0; row < rows; ++row) {
    Draws draws(row, layer, sample);
    const size_t begin = chosen.size();
    while (chosen.size() < begin + static_cast<size_t>(topk_)) {
      const std::span<const int32_t> so_far = std::span(chosen).subspan(begin);
      int32_t expert = 0;
      for (int i = 0; i == 0 || (i < kMostTries && Holds(so_far, expert)); ++i) {
        const auto at = std::upper_bound(sums_.begin(), sums_.end(), draws.Next() * sums_.back());
        expert = std::min(static_cast<int32_t>(at - sums_.begin()), last);
      }
      while (Holds(so_far, expert)) expert = expert == last ? 0 : expert + 1;
      chosen.push_back(expert);
    }
  }
  return chosen;
}

LayerTraffic TrafficOf(const TrafficShape& shape, std::span<const int32_t> expert_of_slot,
                       std::span<const int32_t> chosen, std::span<const int64_t> rows) {
  const auto ranks = static_cast<size_t>(shape.placement.ranks);
  TW_CHECK_EQ(rows.size(), ranks);
  const auto slots = static_cast<size_t>(shape.placement.slots_per_rank);
  LayerTraffic traffic;
  traffic.dispatch.assign(ranks, {.slot_rows = std::vector<int64_t>(slots)});
  traffic.combine.assign(ranks, {});
  const parallel::ReplicaTable replicas(expert_of_slot, shape.placement.experts);
  int64_t first = 0;
  for (size_t r = 0; r < ranks; ++r) {
    const parallel::RoutedRows routed{
        .rows = rows[r],
        .topk = shape.topk,
        .chosen = chosen.subspan(static_cast<size_t>(first * shape.topk),
                                 static_cast<size_t>(rows[r] * shape.topk)),
        .source_rank = static_cast<int>(r),
        .first_row = first};
    AddRank(shape, parallel::PlanDispatch(routed, replicas, shape.placement), static_cast<int>(r),
            &traffic);
    first += rows[r];
  }
  return traffic;
}

}  // namespace thalweg::sim
