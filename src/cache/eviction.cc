#include "cache/eviction.h"

#include <algorithm>

#include "base/check.h"

namespace thalweg::cache {

EvictionQueue::EvictionQueue(int64_t entries) : entries_(static_cast<size_t>(entries)) {
  heap_.reserve(2 * entries_.size() + 1);
}

void EvictionQueue::Touch(int32_t entry, uint64_t head_start) {
  Entry& e = entries_[static_cast<size_t>(entry)];
  TW_CHECK(!e.offered);
  e.tick = ++clock_;
  e.key = e.tick + head_start;
}

void EvictionQueue::Offer(int32_t entry) {
  Entry& e = entries_[static_cast<size_t>(entry)];
  if (e.offered) return;
  if (heap_.size() >= 2 * entries_.size()) DropStale();
  e.offered = true;
  heap_.push_back({e.key, e.tick, entry, ++e.offer});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

void EvictionQueue::Withdraw(int32_t entry) {
  entries_[static_cast<size_t>(entry)].offered = false;
}

int32_t EvictionQueue::Pop() {
  while (!heap_.empty()) {
    const Item item = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    heap_.pop_back();
    if (Stale(item)) continue;
    entries_[static_cast<size_t>(item.entry)].offered = false;
    return item.entry;
  }
  return -1;
}

bool EvictionQueue::Stale(const Item& item) const {
  const Entry& e = entries_[static_cast<size_t>(item.entry)];
  return !e.offered || e.offer != item.offer;
}

// At most one item an entry remains: the heap never outgrows its memory.
void EvictionQueue::DropStale() {
  std::erase_if(heap_, [this](const Item& item) { return Stale(item); });
  std::make_heap(heap_.begin(), heap_.end(), Later);
}

}  // namespace thalweg::cache
