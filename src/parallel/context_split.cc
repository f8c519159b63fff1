#include "parallel/context_split.h"

#include <fmt/format.h>

#include <algorithm>

#include "parallel/limits.h"

namespace thalweg::parallel {
namespace {

int64_t CostOfRows(int64_t begin, int64_t end, const RowCost& cost) {
  const int64_t rows = end - begin;
  // The sum of begin, begin + 1, ..., end - 1.
  const int64_t positions = rows * (begin + end - 1) / 2;
  return rows * cost.fixed + positions * cost.per_position;
}

// The last end of a part from `begin` on that costs at most `most`; `begin` itself when the first
// group is too dear.
int64_t FarthestEnd(int64_t begin, int64_t end, const RowCost& cost, int64_t group, int64_t most) {
  if (CostOfRows(begin, end, cost) <= most) return end;
  int64_t low = begin, high = end;  // low fits, high does not
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (CostOfRows(begin, middle, cost) <= most ? low : high) = middle;
  }
  return std::max(begin, low / group * group);
}

// Fills ranks up to `most` each, what they have to do beside included, in order. Whether everything
// found a place.
bool Fill(std::span<const SequencePart> rows, const RowCost& cost, int64_t group,
          std::span<const int64_t> loads, int64_t most, ContextSplit* split) {
  for (auto& parts : split->ranks) parts.clear();
  size_t rank = 0;
  const auto room = [&] {
    return loads.empty() ? most : most - loads[std::min(rank, loads.size() - 1)];
  };
  int64_t left = room();
  for (const SequencePart& sequence : rows) {
    int64_t begin = sequence.begin;
    while (begin < sequence.end) {
      if (rank == split->ranks.size()) return false;
      const int64_t end = FarthestEnd(begin, sequence.end, cost, group, left);
      if (end > begin) {
        split->ranks[rank].push_back({sequence.sequence, begin, end});
        left -= CostOfRows(begin, end, cost);
        begin = end;
      }
      if (begin < sequence.end) {
        ++rank;
        left = room();
      }
    }
  }
  return true;
}

Status CheckLoads(std::span<const int64_t> loads, int ranks) {
  if (loads.empty()) return {};
  if (loads.size() != static_cast<size_t>(ranks))
    return base::InvalidArgument(fmt::format("{} loads of {} ranks", loads.size(), ranks));
  for (const int64_t load : loads)
    if (load < 0 || load > kMostLoad) return base::OutOfRange(fmt::format("a load of {}", load));
  return {};
}

Status CheckSplit(std::span<const SequencePart> rows, const RowCost& cost, int ranks,
                  int64_t group) {
  if (ranks < 1 || ranks > kMostRanks) return base::OutOfRange(fmt::format("{} ranks", ranks));
  if (group < 1 || group > kMostPositions)
    return base::OutOfRange(fmt::format("groups of {}", group));
  if (cost.fixed < 1 || cost.fixed > kMostFixedCost || cost.per_position < 0 ||
      cost.per_position > kMostPositionCost)
    return base::OutOfRange(
        fmt::format("a row cost of {} and {} per position", cost.fixed, cost.per_position));
  int64_t total = 0;
  for (const SequencePart& part : rows) {
    if (part.begin < 0 || part.end < part.begin || part.end > kMostPositions)
      return base::OutOfRange(fmt::format("rows {} to {}", part.begin, part.end));
    total += part.end - part.begin;
    if (total > kMostPositions)
      return base::OutOfRange(fmt::format("more than {} rows", kMostPositions));
  }
  return {};
}

void AddHalo(const std::vector<SequencePart>& parts, int from, const SequencePart& wanted,
             std::vector<Halo>* halo) {
  for (const SequencePart& part : parts) {
    if (part.sequence != wanted.sequence) continue;
    const SequencePart rows{wanted.sequence, std::max(part.begin, wanted.begin),
                            std::min(part.end, wanted.end)};
    if (rows.begin < rows.end) halo->push_back({from, rows});
  }
}

}  // namespace

int64_t CostOf(std::span<const SequencePart> parts, const RowCost& cost) {
  int64_t sum = 0;
  for (const SequencePart& part : parts) sum += CostOfRows(part.begin, part.end, cost);
  return sum;
}

Result<ContextSplit> SplitContext(std::span<const SequencePart> rows, const RowCost& cost,
                                  int ranks, int64_t group, std::span<const int64_t> loads) {
  TW_TRY(CheckSplit(rows, cost, ranks, group));
  TW_TRY(CheckLoads(loads, ranks));
  ContextSplit split{std::vector<std::vector<SequencePart>>(static_cast<size_t>(ranks))};
  // The least bound with which everything finds a place: filling in order is the best there is for
  // a bound, and a larger bound never does worse.
  const int64_t heaviest = loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
  int64_t low = CostOf(rows, cost) / ranks - 1, high = CostOf(rows, cost) + heaviest;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (Fill(rows, cost, group, loads, middle, &split) ? high : low) = middle;
  }
  Fill(rows, cost, group, loads, high, &split);
  return split;
}

std::vector<Halo> HaloOf(const ContextSplit& split, int rank, int64_t look_back) {
  std::vector<Halo> halo;
  for (const SequencePart& part : split.ranks[static_cast<size_t>(rank)]) {
    const SequencePart wanted{part.sequence, std::max<int64_t>(0, part.begin - look_back),
                              part.begin};
    for (int r = 0; r < rank; ++r) AddHalo(split.ranks[static_cast<size_t>(r)], r, wanted, &halo);
  }
  return halo;
}

}  // namespace thalweg::parallel
