// Random choices for property tests: a seed gives the same ones everywhere.
#pragma once

#include <cstdint>

#include "base/rng.h"

namespace thalweg::grammar {

class Draws {
 public:
  explicit Draws(uint64_t seed) : key_(base::PhiloxKeyOf(seed)) {}

  // Uniform in [0, below), about; below > 0.
  uint32_t Below(uint32_t below) { return Word() % below; }
  uint32_t Word() { return base::Philox4x32({next_++, 0, 0, 0}, key_)[0]; }

 private:
  base::PhiloxKey key_;
  uint32_t next_ = 0;
};

}  // namespace thalweg::grammar
