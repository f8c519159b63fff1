// Packed experts of a rank that shares them with others: blocks of one size in the arena of packed
// weights, one for each expert that the rank holds, and free ones, into which other experts are
// brought while steps go on (spec/decoding.md 7.3).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/ops.h"

namespace thalweg::model {

class ExpertStore {
 public:
  // Nothing is packed.
  ExpertStore() = default;
  // For experts of the shape of `like`, which a backend packs.
  ExpertStore(const kernels::Ops& ops, const kernels::FeedForward& like);

  // Of one expert: w1, w3 and w2 behind one another, each aligned; 0: experts are used as stored.
  int64_t block_bytes() const { return bytes_[0] + bytes_[1] + bytes_[2]; }
  int64_t free_blocks() const { return static_cast<int64_t>(free_.size()); }

  void Add(std::byte* block) { free_.push_back(block); }
  std::byte* Take();
  // The block of an expert that is packed.
  static std::byte* BlockOf(const kernels::FeedForward& expert);
  // From now on the expert is read from the block; and from where it is stored, the block is free.
  void Attach(std::byte* block, kernels::FeedForward* expert) const;
  void Release(kernels::FeedForward* expert);
  // Lays the stored form out in a block.
  void Pack(const kernels::Ops& ops, const tensor::Stream& stream,
            const kernels::FeedForward& expert, std::byte* block) const;

 private:
  std::array<int64_t, 3> bytes_ = {};  // w1, w3, w2
  std::vector<std::byte*> free_;
};

}  // namespace thalweg::model
