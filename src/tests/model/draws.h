// Random decisions of a property test: a stream of Philox words that is a pure function of a seed
// and a purpose, so that a failing case is named by two numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"

namespace thalweg::tests {

class Draws {
 public:
  Draws(uint64_t seed, uint32_t purpose) : key_(base::PhiloxKeyOf(seed)), purpose_(purpose) {}

  uint32_t Word() { return base::Philox4x32({counter_++, purpose_, 0, 0}, key_)[0]; }
  // Uniform enough in [least, most].
  int64_t Between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(Word() % static_cast<uint64_t>(most - least + 1));
  }
  bool Chance(int percent) { return Between(0, 99) < percent; }
  int64_t OneOf(const std::vector<int64_t>& values) {
    return values[static_cast<size_t>(Between(0, static_cast<int64_t>(values.size()) - 1))];
  }

 private:
  base::PhiloxKey key_;
  uint32_t purpose_;
  uint32_t counter_ = 0;
};

}  // namespace thalweg::tests
