// `thalweg bench model --synthetic`: whole steps through layers of released size whose weights are
// made up, against what this machine can do at best.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/thread_team.h"
#include "checkpoint/config.h"
#include "kernels/ops.h"
#include "tools/bench/figures.h"

namespace thalweg::tools::bench {

struct LayersBenchOptions {
  int64_t layers = 0;   // 0: as many as keep kFairExperts experts each, at most 8
  int64_t experts = 0;  // of a layer; 0: as many as fit
  std::vector<int64_t> batches = {1, 8};
  int64_t context = 32768;   // cached tokens of each sequence when the decode steps begin
  int64_t prompt = 2048;     // rows of the prefill through the encoder layers; 0: none
  int64_t steps = 8;         // of each decode figure; the one of median share counts
  bool per_op = false;       // adds a figure for every op
  bool graphs = true;        // of a device: steps are recorded
  double acceptance = 0;     // tokens a step of whole draft blocks: adds steps with drafts; 0: none
  int64_t memory_bytes = 0;  // for weights; 0: 60 % of what is free
  int64_t gauge_bytes = int64_t{512} << 20;
};

// Fewer experts than this would let the caches of a large machine flatter the figures.
inline constexpr int64_t kFairExperts = 32;

// Figures of decode (layers and head together and apart) for every batch, and of prefill. `note`
// hears what was chosen. Shares count the experts that the steps really read.
Result<std::vector<ModelFigure>> BenchLayers(const checkpoint::Config& base,
                                             const kernels::Ops& ops, const base::ThreadTeam& team,
                                             const LayersBenchOptions& options,
                                             const std::function<void(const std::string&)>& note);

}  // namespace thalweg::tools::bench
