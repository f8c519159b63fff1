#include "kernels/cpu/grouping.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/scratch.h"

namespace thalweg::kernels::cpu {

ExpertGroups GroupByExpert(const int32_t* chosen, const float* weights, int64_t rows, int64_t topk,
                           int64_t experts) {
  const int64_t count = rows * topk;
  auto* memory = static_cast<int32_t*>(Scratch(Slot::kGroups, (2 * count + 2 * experts + 2) * 4));
  int32_t* begin = memory;
  int32_t* next = begin + experts + 1;
  int32_t* row = next + experts + 1;
  auto* weight = reinterpret_cast<float*>(row + count);
  std::fill_n(begin, experts + 1, 0);
  for (int64_t i = 0; i < count; ++i) {
    TW_DCHECK(chosen[i] >= 0 && chosen[i] < experts);
    ++begin[chosen[i] + 1];
  }
  for (int64_t e = 0; e < experts; ++e) begin[e + 1] += begin[e];
  std::copy_n(begin, experts, next);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t at = next[chosen[i]]++;
    row[at] = static_cast<int32_t>(i / topk);
    weight[at] = weights[i];
  }
  return {begin, row, weight};
}

}  // namespace thalweg::kernels::cpu
