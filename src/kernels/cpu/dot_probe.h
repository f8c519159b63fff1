// The dot products of dot.inc.h as plain functions, one set per compiled target, for their test.
#pragma once

#include <cstdint>

namespace thalweg::kernels::cpu {

// Sixteen lanes each: sums[i] = DotBF16(sums[i], a[i], b[i]), counts[i] = DotU8S8(counts[i], ...).
struct DotProbe {
  const char* target;
  void (*bf16)(const uint32_t* a, const uint32_t* b, float* sums);
  void (*bytes)(const uint32_t* a, const uint32_t* b, uint32_t* counts);
};

namespace generic {
extern const DotProbe kDotProbe;
}
namespace avx2 {
extern const DotProbe kDotProbe;
}
namespace avx512 {
extern const DotProbe kDotProbe;
}
namespace avx512bf16 {
extern const DotProbe kDotProbe;
}
namespace amx {
extern const DotProbe kDotProbe;
}

}  // namespace thalweg::kernels::cpu
