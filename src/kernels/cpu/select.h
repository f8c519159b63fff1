// The k best of a row of scores in total order: higher first, equal ones by lower index.
#pragma once

#include <cstdint>

namespace thalweg::kernels::cpu {

// Writes the indices of the best `count` of score[0..n) ascending to `out` and returns how many:
// fewer than `count` when fewer can be chosen. -inf and NaN are never chosen.
int64_t SelectBest(const float* score, int64_t n, int64_t count, int32_t* out);

// The best `capacity` blocks of `block_size` scores by their highest score, ascending; the last
// block, of the newest entry, is always in. More than `capacity` blocks are there.
int64_t SelectBlocks(const float* score, int64_t n, int64_t block_size, int64_t capacity,
                     int32_t* out);

}  // namespace thalweg::kernels::cpu
