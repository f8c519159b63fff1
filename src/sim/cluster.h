// Machines and what runs on them: {"format": "thalweg cluster", "version": 1, ...},
// docs/evaluation.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "parallel/statistics.h"
#include "sim/costs.h"

namespace thalweg::sim {

// A message takes latency_us and its bytes at gb_per_s, of each rank and direction.
struct Link {
  double latency_us = 0;
  double gb_per_s = 1;
};

struct ModelShape {
  int64_t hidden = 0;
  int64_t experts = 0;  // routed, of a layer
  int64_t topk = 0;
  double kv_bytes = 0;  // of a token in all layers: what ranks of one prompt gather
};

struct DecodeLoad {
  int64_t ranks = 1;
  std::vector<int64_t> batches = {};  // sequences of each rank, a figure each
  double context = 0;
  int64_t rows_per_sequence = 1;  // 1 + drafts that are verified
  double tokens_per_step = 1;     // of a sequence: 1 + drafts that are accepted
  double draft_us = 0;            // of a step, for drafting
};

struct PrefillLoad {
  int64_t ranks = 1;
  std::vector<int64_t> prompts = {};  // tokens, a figure each
  int64_t step_rows = 8192;           // of a step, over all ranks
};

struct Cluster {
  ModelShape model = {};
  Costs costs = {};
  parallel::ExpertCounts counts = {};  // how often experts are chosen; layers repeat
  int64_t spare = 0;                   // slots of each rank beside those that experts need
  int64_t node_ranks = 1;              // of one host
  Link in_node = {};
  Link between_nodes = {};
  double overlap = 0;        // of the time on links that other work hides, in [0, 1]
  DecodeLoad decode = {};    // no batches: not asked for
  PrefillLoad prefill = {};  // no prompts: not asked for
};

// Ranks must not be more than experts, and a step no larger than can be drawn. Part of reading, and
// of predicting, for whom changes a cluster in between.
Status CheckLoads(const Cluster& cluster);

// Files that it names (costs, routing.counts) are looked for beside it.
Result<Cluster> ReadCluster(const std::filesystem::path& path);

// Of a cluster without what other files hold: costs and counts stay empty unless they are inline
// ("routing": {"zipf": s} makes counts).
struct ClusterFile {
  Cluster cluster = {};
  std::string costs = {};   // path as written
  std::string counts = {};  // path as written; empty: zipf
};
Result<ClusterFile> ParseCluster(std::string_view text, std::string_view what);

// Counts by Zipf's law, expert i with weight 1 / (i + 1)^s in a fixed shuffled order of each layer;
// s = 0: all alike.
parallel::ExpertCounts ZipfCounts(int64_t layers, int64_t experts, double s);

}  // namespace thalweg::sim
