// The `cpu` backend for amx: AVX-512 with BF16 and VNNI, and products in AMX tiles.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the placeholder operands inside its own AVX-512 intrinsics for forgotten values.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define THALWEG_CPU_TARGET amx
#include "kernels/cpu/ops.inc.h"
