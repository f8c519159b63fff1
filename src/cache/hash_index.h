// A flat map from block names to small integers: open addressing over one vector, no allocation
// while it does not grow. Names are hashes already, so their bits choose the place.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/block_hash.h"

namespace thalweg::cache {

class HashIndex {
 public:
  static constexpr int32_t kNone = -1;

  // Room for `entries` without growing.
  explicit HashIndex(int64_t entries = 0);

  int64_t size() const { return size_; }
  // kNone when absent.
  int32_t Find(const BlockHash& key) const;
  // `key` must be absent, `value` >= 0.
  void Insert(const BlockHash& key, int32_t value);
  // `key` must be present.
  void Erase(const BlockHash& key);

 private:
  struct Place {
    BlockHash key;
    int32_t value = kNone;
  };
  size_t Home(const BlockHash& key) const { return static_cast<size_t>(key.low) & mask_; }
  size_t PlaceOf(const BlockHash& key) const;
  void Grow();

  std::vector<Place> places_;  // a power of two, at most half of it taken
  size_t mask_ = 0;
  int64_t size_ = 0;
};

}  // namespace thalweg::cache
