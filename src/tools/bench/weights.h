// Random weight matrices as a loaded model holds them: in the layout that the backend packs, or in
// the stored one where it packs nothing.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "kernels/ops.h"
#include "tools/bench/memory.h"

namespace thalweg::tools::bench {

// Bytes of codes and scales in the stored format: what a product has to read, however it is packed.
int64_t StoredBytes(kernels::WeightFormat format, int64_t rows, int64_t cols);
inline int64_t StoredBytes(const kernels::Matrix& m) {
  return StoredBytes(m.format, m.rows, m.cols);
}

// Makes matrices in `memory`. Codes are random without NaN, scales such that y = W x has about the
// magnitude of x. The stored form of a packed matrix is given back at once: data is null then. On a
// device there are a few distinct matrices of each shape, and copies of them.
class WeightMaker {
 public:
  WeightMaker(const kernels::Ops& ops, tensor::Stream stream, Memory* memory)
      : ops_(ops), stream_(stream), memory_(*memory) {}

  kernels::Matrix Make(kernels::WeightFormat format, int64_t rows, int64_t cols,
                       kernels::Inputs inputs = kernels::Inputs::kQuantised);
  kernels::FeedForward MakeFeedForward(kernels::WeightFormat format, int64_t hidden, int64_t inner);

 private:
  using Kind = std::tuple<kernels::WeightFormat, int64_t, int64_t, kernels::Inputs, uint64_t>;
  kernels::Matrix MakeNew(kernels::WeightFormat format, int64_t rows, int64_t cols,
                          kernels::Inputs inputs, uint64_t seed);

  const kernels::Ops& ops_;
  tensor::Stream stream_;
  Memory& memory_;
  uint64_t made_ = 0;
  std::map<Kind, kernels::Matrix> originals_;  // of a device
};

}  // namespace thalweg::tools::bench
