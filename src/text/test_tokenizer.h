// Small tokenizers for the tests of this room.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/rng.h"
#include "text/tokenizer.h"

namespace thalweg::text {

// A byte-level tokenizer.json: one token per byte (ids 0..255), then the result of each merge, then
// the added tokens. Merges are written in the byte alphabet ("Ġ" is a space).
base::Json ByteLevelJson(const std::vector<std::pair<std::string, std::string>>& merges,
                         const std::vector<std::string>& added);

// Merges of random tokens, each of tokens that exist already, over few letters, so that they
// overlap and compete. Results may repeat; ranks may be out of bottom-up order with `shuffled`.
std::vector<std::pair<std::string, std::string>> RandomMerges(uint64_t seed, int count,
                                                              bool shuffled);

// Processor seconds of this process: what a limit on time can hold on a busy machine.
inline double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// A stream of random numbers for tests.
class Dice {
 public:
  explicit Dice(uint64_t seed) : key_(base::PhiloxKeyOf(seed)) {}
  uint32_t Below(uint32_t n) { return base::Philox4x32({drawn_++, 0, 0, 0}, key_)[0] % n; }

 private:
  base::PhiloxKey key_;
  uint32_t drawn_ = 0;
};

}  // namespace thalweg::text
