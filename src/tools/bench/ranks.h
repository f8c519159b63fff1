// thalweg bench ranks: a long prompt on one rank of one thread, on one rank of several threads, and
// on as many ranks of one thread each that share its rows. Ranks are threads, or processes of
// mpirun.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/options.h"
#include "comm/communicator.h"
#include "kernels/ops.h"
#include "model/replay.h"

namespace thalweg::tools::bench {

struct RanksBenchOptions {
  std::filesystem::path folder;
  const kernels::Ops* ops = nullptr;  // of the host
  int64_t prompt = 4096;              // tokens
  int64_t max_rows = 512;             // of a step
  model::ReplayMode replay = model::ReplayMode::kCompact;
  double seconds = 0.3;  // for each figure, at least; three prompts at least
};

struct RanksFigure {
  std::string name;
  int64_t prompts = 0;
  double seconds = 0;            // of a prompt, median
  double best_seconds = 0;       // of the fastest
  double busy_seconds = 0;       // of the processor, of the rank whose first thread took most
  double tokens_per_second = 0;  // of the median
  double speedup = 0;            // over one rank of one thread, medians
  double share = 0;              // of what as many threads of one rank gain
};

// Every rank of the group calls it; rank 0 has figures, in the order above, and one with experts
// over the ranks, too.
Result<std::vector<RanksFigure>> BenchPrefill(comm::Communicator* ranks,
                                              const RanksBenchOptions& options);

base::Json ToJson(const std::vector<RanksFigure>& figures);
std::string ToTable(const std::vector<RanksFigure>& figures);

// The command; under mpirun on every rank.
Status BenchRanksCommand(const base::OptionValues& values);

}  // namespace thalweg::tools::bench
