// Rows sorted by the expert that they chose.
#pragma once

#include <cstdint>

namespace thalweg::kernels::cpu {

struct ExpertGroups {
  const int32_t* begin;  // [experts + 1]: assignments of expert e are begin[e]..begin[e + 1]-1
  const int32_t* row;    // [rows * topk]: the row of an assignment
  const float* weight;   // [rows * topk]
};

// Counting sort of chosen [rows, topk]; rows of an expert ascend. Memory of the calling thread.
ExpertGroups GroupByExpert(const int32_t* chosen, const float* weights, int64_t rows, int64_t topk,
                           int64_t experts);

}  // namespace thalweg::kernels::cpu
