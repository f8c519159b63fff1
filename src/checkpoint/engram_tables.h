// The constants of the Engram hash (spec/model.md 2.3): primes, row offsets and multipliers of each
// Engram layer, and the generator they come from.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"

namespace thalweg::checkpoint {

// One Engram layer. Column c = (order - 1) * heads + head, order 1 being the 2-gram.
struct EngramTable {
  std::vector<int64_t> primes;       // [columns]
  std::vector<int64_t> offsets;      // [columns] first row of the column: exclusive sum of primes
  std::vector<int64_t> multipliers;  // [max n-gram], odd; index 0 is the current token
  int64_t rows = 0;                  // sum of primes
};

// One table per entry of engram_layer_ids. An error when a sum differs from engram_num_embeddings.
Result<std::vector<EngramTable>> BuildEngramTables(const Config& config);

// Rows that engram_num_embeddings has to state for the other fields of the config.
std::vector<int64_t> EngramTableRows(const Config& config);

__extension__ using Uint128 = unsigned __int128;

// numpy's default_rng(seed): PCG64 seeded by SeedSequence.
class NumpyGenerator {
 public:
  explicit NumpyGenerator(uint64_t seed);
  uint64_t Next64();
  double NextDouble();  // .random(): [0, 1)
  // .integers(0, bound, dtype=int64) for bound > 2^32 (numpy draws smaller ones another way).
  int64_t NextBelow(int64_t bound);

 private:
  Uint128 state_ = 0;
  Uint128 increment_ = 0;
};

}  // namespace thalweg::checkpoint
