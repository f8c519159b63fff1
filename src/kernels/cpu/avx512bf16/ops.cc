// The `cpu` backend for avx512bf16: AVX-512 with BF16 and VNNI.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the placeholder operands inside its own AVX-512 intrinsics for forgotten values.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define THALWEG_CPU_TARGET avx512bf16
#include "kernels/cpu/ops.inc.h"
