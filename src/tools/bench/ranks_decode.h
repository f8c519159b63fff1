// `thalweg bench ranks-decode`: decode over several ranks of one thread each against one rank of as
// many threads, step times against those that `thalweg simulate` predicts from costs of this
// machine, and steps around which experts move.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/options.h"
#include "base/status.h"
#include "engine/engine.h"
#include "tools/bench/rank_moves.h"
#include "tools/bench/rank_validation.h"

namespace thalweg::tools::bench {

// What is measured: an engine over some ranks, with so many threads in all.
struct RankSetup {
  int64_t ranks = 1;
  int64_t threads = 1;
};

struct DecodeRankFigure {
  RankSetup setup = {};
  double ms_per_step = 0;  // between two steps, the fastest round
  double execute_ms = 0;   // of it inside the executor
  double tokens_per_s = 0;
};

struct RanksDecodeReport {
  int64_t batch = 0;  // sequences over all ranks
  int64_t context = 0;
  std::vector<DecodeRankFigure> figures =
      {};                                 // one rank and thread; one rank, all threads; all ranks
  bool same_tokens = true;                // whatever the setup
  Validation predictions = {};            // of one rank and of all, of equal steps
  std::optional<MovesReport> moves = {};  // with --rebalance-window

  double ThreadScaling() const { return figures[0].ms_per_step / figures[1].ms_per_step; }
  double RankScaling() const { return figures[0].ms_per_step / figures[2].ms_per_step; }
};

std::string ToTable(const RanksDecodeReport& report);
base::Json ToJson(const RanksDecodeReport& report);

Status BenchRanksDecodeCommand(const base::OptionValues& values);

}  // namespace thalweg::tools::bench
