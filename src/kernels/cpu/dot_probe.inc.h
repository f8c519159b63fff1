// The probe of dot_probe.h for one target; THALWEG_CPU_TARGET names its namespace.
#pragma once

#include "kernels/cpu/dot.inc.h"
#include "kernels/cpu/dot_probe.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {

namespace {

void ProbeBF16(const uint32_t* a, const uint32_t* b, float* sums) {
  Store(sums, DotBF16(Load(sums), LoadU(a), LoadU(b)));
}
void ProbeBytes(const uint32_t* a, const uint32_t* b, uint32_t* counts) {
  StoreU(counts, DotU8S8(LoadU(counts), LoadU(a), LoadU(b)));
}

#define TW_TEXT_OF(name) #name
#define TW_TEXT(name) TW_TEXT_OF(name)

}  // namespace

const DotProbe kDotProbe = {TW_TEXT(THALWEG_CPU_TARGET), ProbeBF16, ProbeBytes};

}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
