// The order in which cached blocks go: least recently used, with a head start for what is dear to
// compute again. Time is counted in uses, so a head start of n means: it goes as if it had been
// used n uses later than it was.
#pragma once

#include <cstdint>
#include <vector>

namespace thalweg::cache {

class EvictionQueue {
 public:
  // Candidates are numbered [0, entries).
  explicit EvictionQueue(int64_t entries);

  // The entry was used just now.
  void Touch(int32_t entry, uint64_t head_start);
  // It may go / must stay. Offering twice is harmless.
  void Offer(int32_t entry);
  void Withdraw(int32_t entry);
  // The next to go, which is no candidate any more; -1: nobody may.
  int32_t Pop();

 private:
  struct Item {
    uint64_t key;   // time of the last use, and the head start
    uint64_t tick;  // time of the last use: of equal keys the older goes
    int32_t entry;
    uint32_t offer;  // the item counts while this is the entry's newest offer
  };
  struct Entry {
    uint64_t key = 0;
    uint64_t tick = 0;
    uint32_t offer = 0;
    bool offered = false;
  };
  static bool Later(const Item& a, const Item& b) {
    return a.key != b.key ? a.key > b.key : a.tick > b.tick;
  }
  bool Stale(const Item& item) const;
  void DropStale();

  std::vector<Entry> entries_;
  std::vector<Item> heap_;  // the smallest first; withdrawn items stay until they surface
  uint64_t clock_ = 0;
};

}  // namespace thalweg::cache
