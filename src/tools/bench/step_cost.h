// What one step of the model has to read and compute, from the config alone: the limits that
// `thalweg bench model` divides by.
#pragma once

#include <cstdint>

#include "checkpoint/config.h"
#include "tools/bench/op.h"

namespace thalweg::tools::bench {

// The rows of a step. Decode: one row of each of several sequences at one position; prefill: the
// rows of one sequence at consecutive positions.
struct StepRows {
  int64_t rows = 1;
  int64_t position = 0;       // of the first row
  bool own_sequences = true;  // decode
  int64_t visible(int64_t row) const { return position + (own_sequences ? 0 : row) + 1; }
};

// Distinct routed experts that uniform independent routing of `rows` tokens touches, expected.
double ExpectedExperts(int64_t experts, int64_t topk, int64_t rows);

// One target layer: every matrix once, `distinct_experts` routed ones, and the cached rows that
// attention and index scoring read. Operations: 2 for each weight and row, 4 for each attention
// slot, head and channel, 2 for each score.
Cost LayerCost(const checkpoint::Config& config, int layer, const StepRows& rows,
               double distinct_experts);

// The language model's head over `rows` rows.
Cost HeadCost(const checkpoint::Config& config, int64_t rows);

Cost operator+(const Cost& a, const Cost& b);

}  // namespace thalweg::tools::bench
