// `thalweg bench kernels`: how fast the matrix products of each backend are here.
#pragma once

#include <string>

#include "base/status.h"

namespace thalweg::tools {

struct BenchKernelsOptions {
  std::string only;           // a backend ("reference") or a cpu target ("avx2"); empty: all
  int threads = 0;            // 0: as many as the process may use
  double case_seconds = 0.1;  // spent on each case, at least one run
  bool json = false;
};

// Times y = W x for fp8, fp4 and bf16 weights at shapes of the nano and of the released model, with
// one row and with many. Prints microseconds, GB/s of packed weights, their share of the measured
// memory-read bandwidth (above 1 where weights stay in a cache) and GFLOP/s, as a table or as one
// JSON document. An unknown `only` is an error that lists the known names.
Status BenchKernels(const BenchKernelsOptions& options);

}  // namespace thalweg::tools
