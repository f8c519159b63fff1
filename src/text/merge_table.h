// The merges of a BPE model: which two tokens join, how early, and to what.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace thalweg::text {

struct Merge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t result = 0;
};

// An open-addressing hash table from a pair of token ids to the merge's rank (its index in the
// file) and result. A pair that the file names twice has its last rank, as in the Rust library.
class MergeTable {
 public:
  static constexpr int32_t kNoRank = INT32_MAX;

  struct Found {
    int32_t rank = kNoRank;  // kNoRank: the two do not merge
    int32_t result = -1;
  };

  MergeTable() : MergeTable(std::vector<Merge>()) {}
  // `merges` in rank order; ids are >= 0.
  explicit MergeTable(const std::vector<Merge>& merges) {
    const size_t slots = std::bit_ceil(merges.size() * 2 + 32);
    shift_ = 64 - std::countr_zero(slots);
    slots_.resize(slots);
    filter_.resize(slots * kFilterBitsPerSlot / 64);
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const Merge& merge = merges[rank];
      const uint64_t key = KeyOf(merge.left, merge.right);
      slots_[Locate(key)] = {key, {static_cast<int32_t>(rank), merge.result}};
      filter_[FilterBit(key) / 64] |= uint64_t{1} << (FilterBit(key) % 64);
    }
  }

  Found Find(int32_t left, int32_t right) const {
    const uint64_t key = KeyOf(left, right);
    const uint64_t bit = FilterBit(key);
    if (((filter_[bit / 64] >> (bit % 64)) & 1) == 0) return {};
    return slots_[Locate(key)].found;
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  static constexpr size_t kFilterBitsPerSlot = 8;

  struct Slot {
    uint64_t key = kEmpty;
    Found found;
  };

  static uint64_t KeyOf(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) |
           static_cast<uint32_t>(right);
  }

  static uint64_t Hash(uint64_t key) { return key * 0x9E3779B97F4A7C15u; }

  uint64_t FilterBit(uint64_t key) const {
    return Hash(key) >> (shift_ - std::countr_zero(kFilterBitsPerSlot));
  }

  // The slot of `key`, or the empty one where it would go. At most half the slots are taken.
  size_t Locate(uint64_t key) const {
    auto at = static_cast<size_t>(Hash(key) >> shift_);
    while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  int shift_ = 0;
  std::vector<Slot> slots_;
  // A bit per hash value that some pair has. Most questions are about pairs that do not merge, and
  // these bits fit the second-level cache where the slots do not.
  std::vector<uint64_t> filter_;
};

}  // namespace thalweg::text
