// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). A number is a pure function
// of key and counter, so a draw never depends on how many draws came before it
// (spec/decoding.md 4.1).
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace thalweg::base {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Ten rounds; four random words.
PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key);

// Many at once: words[4 * i] to words[4 * i + 3] are those of `first` with i added to its third
// word. words.size() is a multiple of 4.
void Philox4x32Series(PhiloxCounter first, PhiloxKey key, std::span<uint32_t> words);

// The key of a 64-bit seed: low word first.
inline PhiloxKey PhiloxKeyOf(uint64_t seed) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

// A uniform number in the open interval (0, 1): the middle of one of 2^32 cells, exact in double.
inline double OpenUnit(uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

}  // namespace thalweg::base
