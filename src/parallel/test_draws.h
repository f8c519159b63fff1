// Random numbers and loads for the tests of this room.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"

namespace thalweg::parallel {

class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  // 0 to bound - 1.
  int64_t Below(int64_t bound) {
    return base::Philox4x32({next_++, 0, 0, 0}, base::PhiloxKeyOf(seed_))[0] %
           static_cast<uint32_t>(bound);
  }
  int64_t Between(int64_t least, int64_t most) { return least + Below(most - least + 1); }
  std::vector<int64_t> Shuffled(int64_t count) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = Below(i + 1);
      order.push_back(i);
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(at)]);
    }
    return order;
  }

 private:
  uint64_t seed_;
  uint32_t next_ = 0;
};

// Zipf(1.0): the expert that comes r-th has load 1 / r, experts in any order.
inline std::vector<double> ZipfLoads(int64_t experts, uint64_t seed) {
  Draws draws(seed);
  std::vector<double> loads;
  for (const int64_t r : draws.Shuffled(experts)) loads.push_back(1e6 / static_cast<double>(r + 1));
  return loads;
}

}  // namespace thalweg::parallel
