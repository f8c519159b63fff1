// The dot products of avx2 for dot_test.cc.
#define THALWEG_CPU_TARGET avx2
#include "kernels/cpu/dot_probe.inc.h"
