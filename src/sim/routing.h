// Made-up routing with the shares that were counted, and what it does to ranks: which experts they
// have to run for how many rows, and what travels between them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "parallel/balance.h"
#include "parallel/dispatch.h"
#include "parallel/statistics.h"

namespace thalweg::sim {

// Chooses distinct experts for rows, one after another, each by its share among those left.
class Router {
 public:
  // counts [experts]: how often each was chosen. Experts that never were are hardly ever.
  Router(std::span<const int64_t> counts, int64_t topk);

  // [rows * topk]; a function of its arguments alone.
  std::vector<int32_t> Draw(int64_t rows, uint32_t layer, uint32_t sample) const;

 private:
  int64_t topk_;
  std::vector<double> sums_;  // of weights, running
};

// Of one rank in one layer and step.
struct RankTraffic {
  std::vector<int64_t> slot_rows = {};  // of each of its slots
  // Bytes to and from ranks of its node, and of others.
  int64_t sent_in_node = 0, received_in_node = 0;
  int64_t sent_between = 0, received_between = 0;
};

struct LayerTraffic {
  std::vector<RankTraffic> dispatch = {};  // by rank; rows out to experts
  std::vector<RankTraffic> combine = {};   // results back; slot_rows stay empty
  int64_t bytes = 0;                       // that leave ranks, both ways together
};

struct TrafficShape {
  parallel::PlacementShape placement;
  int64_t hidden = 0;
  int64_t topk = 0;
  int64_t node_ranks = 1;
};

// chosen [sum of rows * topk], the rows of rank 0 first; rows: of each rank. Bytes are those of
// parallel::FormulaBytes: dispatch h + h / 32 for each row and other rank, combine 2 h for each
// expert there.
LayerTraffic TrafficOf(const TrafficShape& shape, std::span<const int32_t> expert_of_slot,
                       std::span<const int32_t> chosen, std::span<const int64_t> rows);

}  // namespace thalweg::sim
