#include "cache/hash_index.h"

#include <bit>

#include "base/check.h"

namespace thalweg::cache {

HashIndex::HashIndex(int64_t entries)
    : places_(std::bit_ceil(static_cast<size_t>(entries < 8 ? 16 : 2 * entries))),
      mask_(places_.size() - 1) {}

// The place of `key`, or the empty one where it would go.
size_t HashIndex::PlaceOf(const BlockHash& key) const {
  size_t at = Home(key);
  while (places_[at].value != kNone && places_[at].key != key) at = (at + 1) & mask_;
  return at;
}

int32_t HashIndex::Find(const BlockHash& key) const { return places_[PlaceOf(key)].value; }

void HashIndex::Insert(const BlockHash& key, int32_t value) {
  TW_CHECK_GE(value, 0);
  if (static_cast<size_t>(size_ + 1) * 2 > places_.size()) Grow();
  Place& place = places_[PlaceOf(key)];
  TW_CHECK_EQ(place.value, kNone);
  place = {key, value};
  ++size_;
}

// Whatever stood behind the hole because the hole was taken moves up: no place is ever a tombstone.
void HashIndex::Erase(const BlockHash& key) {
  size_t hole = PlaceOf(key);
  TW_CHECK(places_[hole].value != kNone);
  for (size_t at = (hole + 1) & mask_; places_[at].value != kNone; at = (at + 1) & mask_) {
    const size_t from_home = (at - Home(places_[at].key)) & mask_;
    if (from_home < ((at - hole) & mask_)) continue;
    places_[hole] = places_[at];
    hole = at;
  }
  places_[hole].value = kNone;
  --size_;
}

void HashIndex::Grow() {
  std::vector<Place> old(2 * places_.size());
  old.swap(places_);
  mask_ = places_.size() - 1;
  for (const Place& place : old) {
    if (place.value != kNone) places_[PlaceOf(place.key)] = place;
  }
}

}  // namespace thalweg::cache
