// The dot products of generic for dot_test.cc.
#define THALWEG_CPU_TARGET generic
#include "kernels/cpu/dot_probe.inc.h"
