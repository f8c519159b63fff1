#include "kernels/cpu/targets.h"

#if defined(THALWEG_X86_TARGETS) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

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

#if defined(__linux__)
// The state of tile registers is large, so that a process has to ask for it; its threads share the
// answer, which is no where the kernel does not keep that state.
bool TilesPermitted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Products of bf16 in tiles (CPUID 7, EDX). Asked of the processor itself: compilers differ in the
// names that they know.
bool HasTiles() {
  constexpr unsigned kAmxBF16 = 1u << 22, kAmxTile = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxBF16) != 0 && (d & kAmxTile) != 0;
}

bool HasAmx() {
  static const bool has = HasAvx512Dots() && HasTiles() && TilesPermitted();
  return has;
}
#else
bool HasAmx() { return false; }
#endif
#endif

constexpr TargetRow kTable[] = {
    {"generic", Always, generic::TargetOps, generic::TargetExchangeOps},
#ifdef THALWEG_X86_TARGETS
    {"avx2", HasAvx2, avx2::TargetOps, avx2::TargetExchangeOps},
    {"avx512", HasAvx512, avx512::TargetOps, avx512::TargetExchangeOps},
    {"avx512bf16", HasAvx512Dots, avx512bf16::TargetOps, avx512bf16::TargetExchangeOps},
    {"amx", HasAmx, amx::TargetOps, amx::TargetExchangeOps},
#endif
};

}  // namespace

std::span<const TargetRow> TargetTable() { return kTable; }

}  // namespace thalweg::kernels::cpu
