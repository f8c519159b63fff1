// Engines with and without drafts in turns, in halves so short that whatever else the machine does
// meets both alike: off, on, on, off, and the other way round the next time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "engine/engine.h"
#include "tools/bench/load.h"
#include "tools/bench/serving.h"
#include "tools/bench/spec.h"

namespace thalweg::tools::bench {

// What one engine did in some halves. Sums.
struct HalfFigures {
  double seconds = 0, cpu_seconds = 0;  // the clock's, and this process's on all processors
  double tokens = 0, steps = 0, rows = 0;
  double drafted = 0, accepted = 0;
  double schedule_seconds = 0;

  void Add(const HalfFigures& other);
  double Rate() const { return tokens / seconds; }
  double CpuRate() const { return tokens / cpu_seconds; }
};

// Two halves of each on the same requests.
struct Quad {
  HalfFigures off = {}, on = {};
};

// What quads say of one load; off and on are sums.
SpeedFigures FiguresOf(const std::vector<Quad>& quads, int64_t batch);

// For every batch: halves of about `half_seconds`, at least one request for each sequence.
struct PairOptions {
  std::vector<int64_t> batches = {};
  int64_t pairs = 5;  // quads of each batch
  double half_seconds = 1;
  int64_t tokens = 128;      // of an answer
  bool ignore_ends = false;  // answers are as long as that
};
Result<std::vector<SpeedFigures>> ComparePairs(engine::Engine& off, engine::Engine& on,
                                               const std::vector<std::vector<int32_t>>& prompts,
                                               const PairOptions& options);

}  // namespace thalweg::tools::bench
