// Byte-pair encoding in the words of its definition, quadratic: the yardstick of tests and fuzzers.
#pragma once

#include <cstdint>
#include <vector>

#include "text/merge_table.h"

namespace thalweg::text {

inline void NaiveBpe(const MergeTable& merges, std::vector<int32_t>& symbols) {
  while (true) {
    MergeTable::Found best;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const MergeTable::Found found = merges.Find(symbols[i], symbols[i + 1]);
      if (found.rank >= best.rank) continue;
      best = found;
      at = i;
    }
    if (best.rank == MergeTable::kNoRank) return;
    symbols[at] = best.result;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

}  // namespace thalweg::text
