#include "kernels/cpu/targets.h"

namespace thalweg::kernels::cpu {
namespace {

bool Always() { return true; }

#ifdef THALWEG_X86_TARGETS
// x86-64-v3. Every processor with AVX2 and FMA has the rest of that level, F16C among it.
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}

// x86-64-v4.
bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

// The dot products of bf16 pairs and byte quads.
bool HasAvx512Dots() {
  return HasAvx512() && __builtin_cpu_supports("avx512bf16") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
}
#endif

constexpr TargetRow kTable[] = {
    {"generic", Always, generic::TargetOps},
#ifdef THALWEG_X86_TARGETS
    {"avx2", HasAvx2, avx2::TargetOps},
    {"avx512", HasAvx512, avx512::TargetOps},
    {"avx512bf16", HasAvx512Dots, avx512bf16::TargetOps},
#endif
};

}  // namespace

std::span<const TargetRow> TargetTable() { return kTable; }

}  // namespace thalweg::kernels::cpu
