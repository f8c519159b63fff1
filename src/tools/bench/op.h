// One op made ready to be timed: what every file of ops hands to `thalweg bench kernel`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"
#include "kernels/ops.h"
#include "tools/bench/ceilings.h"
#include "tools/bench/memory.h"
#include "tools/bench/weights.h"

namespace thalweg::tools::bench {

// Inputs and outputs of a product named on the command line (KxN).
struct MatrixShape {
  int64_t in = 0;
  int64_t out = 0;
};

struct OpContext {
  const kernels::Ops& ops;
  tensor::Stream stream;
  const checkpoint::Config& config;   // the sizes
  std::optional<MatrixShape> matrix;  // instead of the config's, for ops that are one product
  int64_t context = 0;                // cached tokens of a sequence
  int64_t experts_per_call = 0;       // moe_ffn; 0: top-k for one row, one for more
  int64_t cold_bytes = 0;             // weights and caches rotate over this much; 0: stay in cache
  int64_t memory_bytes = 0;           // that all of a bench may take

  // kResourceExhausted, naming both numbers, when `bytes` are more than memory_bytes.
  Status CheckFits(int64_t bytes) const;
  // Copies of something of `bytes` that make it cold; at least 1.
  int64_t Copies(int64_t bytes) const;
  // The peak that products with this format are measured against.
  PeakKind PeakOf(kernels::WeightFormat format) const;
  WeightMaker Weights(Memory* memory) const { return {ops, stream, memory}; }
};

// What one call has to do: bytes of weights and caches read, rows read and written once, and
// operations, a multiply-add counting two.
struct Cost {
  double bytes = 0;
  double flops = 0;
};

// An op with operands for some number of rows. The closure owns its memory.
struct PreparedOp {
  std::function<void(int64_t round)> run;
  Cost cost;          // of a call, the mean over a cycle
  int64_t cycle = 1;  // rounds after which costs repeat
};

// An op of some shape, weights made; prepare may be called again and again.
struct OpBench {
  std::string shape;
  PeakKind peak = PeakKind::kFp32;
  int64_t bytes_per_row = 0;  // of operands, to refuse what does not fit
  std::function<PreparedOp(int64_t rows)> prepare;
};

using OpBenches = std::vector<OpBench>;

// A row of the table of ops.
struct OpEntry {
  std::string_view name;
  bool takes_matrix = false;  // KxN has a meaning
  Result<OpBenches> (*make)(const OpContext&) = nullptr;
};

std::span<const OpEntry> DenseOps();   // ops_dense.cc
std::span<const OpEntry> ExpertOps();  // ops_experts.cc
std::span<const OpEntry> RowOps();     // ops_rows.cc
std::span<const OpEntry> CacheOps();   // ops_cache.cc

// All of them, in the order of the Ops table.
std::vector<OpEntry> AllOps();

}  // namespace thalweg::tools::bench
