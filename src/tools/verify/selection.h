// Tie-aware comparison of selections and candidate pools with stored scores: a position near the
// border of the top-k may legitimately be in or out.
#pragma once

#include <cstdint>
#include <span>

namespace thalweg::tools {

// 2^-7 * (|k-th best, or the worst when there are fewer| + largest |score|); scores must be finite.
double TieTolerance(std::span<const float> score, int64_t k);

// How far a choice of the k best of `score` is from one that scores allow, in units of the tie
// tolerance with this largest |score|: at most 1 is acceptable. chosen[i] != 0 marks what
// was chosen; a choice of another size than min(k, n) is infinitely far. Scores must be finite.
double TieAwareExcess(std::span<const float> score, std::span<const uint8_t> chosen, int64_t k,
                      double largest_abs);

// One row's selection. `selected` holds entries and negative fillers; `allowed` marks what may be
// chosen among the visible scores (empty: everything). Entries out of range, repeated or not
// allowed are infinitely far.
double SelectionExcess(std::span<const int32_t> selected, std::span<const float> visible_score,
                       std::span<const uint8_t> allowed, int64_t k);

// One row's candidate pool as a mask over the visible entries: `blocks` best blocks by their best
// score, whole, the block of the newest entry always among them (spec/model.md 2.5).
double CandidateExcess(std::span<const uint8_t> mask, std::span<const float> visible_score,
                       int64_t block_size, int64_t blocks);

}  // namespace thalweg::tools
