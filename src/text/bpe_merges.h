// Byte-pair encoding by its definition: join the pair of lowest rank, the leftmost of several,
// until no pair joins. n log n in the number of symbols.
#pragma once

#include <cstdint>
#include <vector>

#include "text/merge_table.h"

namespace thalweg::text {

// Replaces `symbols` (token ids) by the tokens that the merges make of them.
void ApplyMerges(const MergeTable& merges, std::vector<int32_t>& symbols);

}  // namespace thalweg::text
