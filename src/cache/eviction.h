// The order in which cached blocks go: GreedyDual (Young, 1994). Every candidate has a key, the key
// of the last one that went plus its own cost; the smallest goes next. With equal costs that is
// least recently used; a dearer block outlives cheaper ones of its age and some younger ones.
#pragma once

#include <cstdint>
#include <vector>

namespace thalweg::cache {

class EvictionQueue {
 public:
  // Candidates are numbered [0, entries).
  explicit EvictionQueue(int64_t entries);

  // The entry was used just now, and losing it costs `cost` > 0 units of work.
  void Touch(int32_t entry, double cost);
  // It may go / must stay. Offering twice is harmless.
  void Offer(int32_t entry);
  void Withdraw(int32_t entry);
  // The next to go, which is no candidate any more; -1: nobody may.
  int32_t Pop();

 private:
  struct Item {
    double key;
    uint64_t tick;  // of the last use: ties go to the oldest
    int32_t entry;
    uint32_t offer;  // the item counts while this is the entry's newest offer
  };
  struct Entry {
    double key = 0;
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
  double last_gone_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace thalweg::cache
