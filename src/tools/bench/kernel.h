// `thalweg bench kernel`: every op of the Ops table against what this machine can do at best.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "base/thread_team.h"
#include "kernels/ops.h"
#include "tools/bench/shapes.h"

namespace thalweg::tools::bench {

// One op at one shape and number of rows. `share` is the larger of bytes and operations against
// their limits, both measured in the same run; above 1 where caches serve what is counted as
// memory.
struct KernelFigure {
  std::string op;
  std::string shape;
  int64_t rows = 0;
  std::string numerics;
  int threads = 0;
  double seconds = 0;  // of one call
  double gb_per_s = 0;
  double gflop_per_s = 0;
  double limit_gb_per_s = 0;
  double limit_gflop_per_s = 0;
  double share = 0;
};

struct KernelBenchOptions {
  std::string op = "all";  // a name, "linear" for its three formats, or "all"
  std::vector<int64_t> rows = {1};
  double seconds = 0.3;  // for each figure, at least one sample
  int64_t context = 32768;
  int64_t experts_per_call = 0;  // moe_ffn; 0: top-k for one row, one for more
  int64_t memory_bytes = 0;      // that a bench may take; 0: half of what is free
  int64_t gauge_bytes = int64_t{512} << 20;
};

std::string NumericsName(kernels::Numerics numerics);
// Names that `op` may have.
std::vector<std::string> KernelBenchNames();

// Times the op, or every op, and hands each figure to `report` as it comes. Errors: an unknown op
// (the known ones are listed), a KxN shape for an op that is no single product, and more memory
// than there is; with "all", ops that the shape lacks are left out.
Status BenchKernel(const kernels::Ops& ops, const base::ThreadTeam& team, const BenchShape& shape,
                   const KernelBenchOptions& options,
                   const std::function<void(const KernelFigure&)>& report);

base::Json ToJson(const KernelFigure& figure);
// A table row for people, and the line above it.
std::string TableHeader();
std::string TableRow(const KernelFigure& figure);

}  // namespace thalweg::tools::bench
