// Remembers yes-or-no answers about pairs of token ids: a fixed number of them, newer over older.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace thalweg::text {

// May be asked and told by any number of threads at once: an entry is one atomic word that carries
// the pair and its answer, so a reader sees a whole answer or none.
class PairMemo {
 public:
  static constexpr int kIdBits = 21;  // ids are 0 .. 2^21 - 1

  PairMemo() : entries_(std::make_unique<std::atomic<uint64_t>[]>(kEntries)) {}

  std::optional<bool> Find(int32_t left, int32_t right) const {
    const uint64_t key = KeyOf(left, right);
    const uint64_t entry = entries_[IndexOf(key)].load(std::memory_order_relaxed);
    if (entry >> 1 != key) return std::nullopt;
    return (entry & 1) != 0;
  }

  void Store(int32_t left, int32_t right, bool answer) const {
    const uint64_t key = KeyOf(left, right);
    entries_[IndexOf(key)].store(key << 1 | (answer ? 1 : 0), std::memory_order_relaxed);
  }

 private:
  static constexpr int kIndexBits = 15;
  static constexpr size_t kEntries = size_t{1} << kIndexBits;  // 256 KiB

  // Never zero, which is what an empty entry holds.
  static uint64_t KeyOf(int32_t left, int32_t right) {
    return uint64_t{1} << (2 * kIdBits) | static_cast<uint64_t>(left) << kIdBits |
           static_cast<uint64_t>(right);
  }

  static size_t IndexOf(uint64_t key) {
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> (64 - kIndexBits));
  }

  std::unique_ptr<std::atomic<uint64_t>[]> entries_;
};

}  // namespace thalweg::text
