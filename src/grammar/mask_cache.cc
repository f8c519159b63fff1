#include "grammar/mask_cache.h"

#include <utility>

namespace thalweg::grammar {

int64_t MaskCache::BytesOf(const Entry& entry) {
  constexpr size_t kAround = 128;  // nodes of the list and the map
  return static_cast<int64_t>(entry.mask->size() * sizeof(uint32_t) + kAround);
}

std::shared_ptr<const Mask> MaskCache::Find(int32_t row) {
  const std::lock_guard lock(mutex_);
  const auto at = by_row_.find(row);
  if (at == by_row_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, at->second);
  return at->second->mask;
}

void MaskCache::Drop(std::list<Entry>::iterator entry) {
  bytes_ -= BytesOf(*entry);
  by_row_.erase(entry->row);
  entries_.erase(entry);
}

void MaskCache::Put(int32_t row, std::shared_ptr<const Mask> mask) {
  const std::lock_guard lock(mutex_);
  if (const auto at = by_row_.find(row); at != by_row_.end()) Drop(at->second);
  entries_.push_front({row, std::move(mask)});
  by_row_[row] = entries_.begin();
  ++made_;
  bytes_ += BytesOf(entries_.front());
  while (bytes_ > most_bytes_ && !entries_.empty()) Drop(std::prev(entries_.end()));
}

void MaskCache::Forget(std::span<const int32_t> rows) {
  const std::lock_guard lock(mutex_);
  for (const int32_t row : rows) {
    if (const auto at = by_row_.find(row); at != by_row_.end()) Drop(at->second);
  }
}

int64_t MaskCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

int64_t MaskCache::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

}  // namespace thalweg::grammar
