// The `cpu` backend for generic.
#define THALWEG_CPU_TARGET generic
#include "kernels/cpu/ops.inc.h"
