// The `cpu` backend for avx2.
#define THALWEG_CPU_TARGET avx2
#include "kernels/cpu/ops.inc.h"
