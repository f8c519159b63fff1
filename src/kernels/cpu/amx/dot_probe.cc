// The dot products of amx for dot_test.cc.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the placeholder operands inside its own AVX-512 intrinsics for forgotten values.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define THALWEG_CPU_TARGET amx
#include "kernels/cpu/dot_probe.inc.h"
