#include "tools/bench/op.h"

#include <fmt/format.h>

#include <algorithm>

namespace thalweg::tools::bench {

Status OpContext::CheckFits(int64_t bytes) const {
  if (bytes <= memory_bytes) return {};
  return base::ResourceExhausted(fmt::format(
      "this bench takes {} MiB, of which {} MiB may be used here: ask for fewer rows or "
      "a smaller shape",
      bytes >> 20, memory_bytes >> 20));
}

int64_t OpContext::Copies(int64_t bytes) const {
  return std::max<int64_t>(1, cold_bytes / std::max<int64_t>(1, bytes));
}

PeakKind OpContext::PeakOf(kernels::WeightFormat format) const {
  const bool coded = format == kernels::WeightFormat::kFp4 || format == kernels::WeightFormat::kFp8;
  return coded && ops.numerics == kernels::Numerics::kFast ? PeakKind::kInt8 : PeakKind::kBf16;
}

std::vector<OpEntry> AllOps() {
  std::vector<OpEntry> all;
  for (const auto ops : {DenseOps(), ExpertOps(), CacheOps(), RowOps()}) {
    all.insert(all.end(), ops.begin(), ops.end());
  }
  return all;
}

}  // namespace thalweg::tools::bench
