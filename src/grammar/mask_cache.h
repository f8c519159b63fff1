// Remembered masks, the least recently used ones forgotten.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

#include "grammar/matcher.h"

namespace thalweg::grammar {

// Thread-safe; every operation is short.
class MaskCache {
 public:
  explicit MaskCache(int64_t most_bytes) : most_bytes_(most_bytes) {}

  std::shared_ptr<const Mask> Find(int32_t row);  // null: none
  void Put(int32_t row, std::shared_ptr<const Mask> mask);
  void Forget(std::span<const int32_t> rows);
  int64_t bytes() const;
  int64_t made() const;  // Puts so far

 private:
  struct Entry {
    int32_t row;
    std::shared_ptr<const Mask> mask;
  };
  static int64_t BytesOf(const Entry& entry);
  void Drop(std::list<Entry>::iterator entry);

  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the newest use first
  std::unordered_map<int32_t, std::list<Entry>::iterator> by_row_;
  int64_t bytes_ = 0;
  int64_t made_ = 0;
  const int64_t most_bytes_;
};

}  // namespace thalweg::grammar
