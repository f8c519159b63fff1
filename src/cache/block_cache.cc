#include "cache/block_cache.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace thalweg::cache {
namespace {

// Head starts, in turnovers of the cache (as many uses as it has blocks).
// A checkpoint at the end of a block saves the replay of a window for every layer, thousands of
// rows where a block alone saves 64.
constexpr double kCheckpointTurnovers = 1;
// Attention and selection look at everything before a row: at 32k tokens a block costs about twice
// as much as at the beginning.
constexpr double kDoubleCostTurnovers = 0.25;
constexpr double kDoubleCostDepth = 512;

}  // namespace

BlockCache::BlockCache(int64_t blocks, int64_t checkpoints)
    : blocks_(static_cast<size_t>(blocks)),
      entries_(static_cast<size_t>(blocks)),
      index_(blocks),
      queue_(blocks),
      slots_(checkpoints),
      ghosts_(std::bit_ceil(static_cast<size_t>(blocks))) {
  for (int64_t i = blocks; i-- > 0;) {
    free_.push_back(static_cast<int32_t>(i));
    free_entries_.push_back(static_cast<int32_t>(i));
  }
}

bool BlockCache::EvictedLately(const BlockHash& hash) const {
  return ghosts_[hash.high & (ghosts_.size() - 1)] == hash.low;
}

int32_t BlockCache::Acquire(int32_t entry) {
  const int32_t block = EntryAt(entry).block;
  if (BlockAt(block).users++ == 0) {
    --cached_;
    queue_.Withdraw(entry);
  }
  return block;
}

int32_t BlockCache::Take() {
  if (free_.empty()) TW_CHECK(EvictOne());
  const int32_t block = free_.back();
  free_.pop_back();
  BlockAt(block) = {.users = 1};
  return block;
}

int32_t BlockCache::Publish(int32_t block, const BlockHash& hash, int32_t parent) {
  TW_CHECK_EQ(BlockAt(block).users, 1);
  TW_CHECK_EQ(BlockAt(block).entry, kNone);
  int32_t entry = index_.Find(hash);
  if (entry == kNone) {
    entry = NewEntry(block, hash, parent);
  } else {
    AddCopy(entry, block);
  }
  BlockAt(block).entry = entry;
  return entry;
}

int32_t BlockCache::NewEntry(int32_t block, const BlockHash& hash, int32_t parent) {
  const int32_t entry = free_entries_.back();
  free_entries_.pop_back();
  EntryAt(entry) = {.hash = hash, .block = block, .parent = parent, .depth = 1};
  if (parent != kNone) {
    ++EntryAt(parent).children;
    EntryAt(entry).depth += EntryAt(parent).depth;
  }
  index_.Insert(hash, entry);
  return entry;
}

// A cached block makes room for the one in use; one in use stays the one that is found.
void BlockCache::AddCopy(int32_t entry, int32_t block) {
  Entry& e = EntryAt(entry);
  if (BlockAt(e.block).users > 0) {
    BlockAt(block).next_copy = e.copies;
    e.copies = block;
    return;
  }
  queue_.Withdraw(entry);
  --cached_;
  FreeBlock(e.block);
  e.block = block;
}

void BlockCache::RemoveCopy(int32_t entry, int32_t block) {
  int32_t* link = &EntryAt(entry).copies;
  while (*link != block) link = &BlockAt(*link).next_copy;
  *link = BlockAt(block).next_copy;
}

void BlockCache::FreeBlock(int32_t block) {
  BlockAt(block) = {};
  free_.push_back(block);
}

void BlockCache::Release(int32_t block) {
  TW_CHECK_GT(BlockAt(block).users, 0);
  if (--BlockAt(block).users > 0) return;
  const int32_t entry = BlockAt(block).entry;
  if (entry == kNone) return FreeBlock(block);
  Entry& e = EntryAt(entry);
  if (e.block != block) {
    RemoveCopy(entry, block);
    return FreeBlock(block);
  }
  if (e.copies == kNone) return MakeCached(entry);
  e.block = e.copies;
  e.copies = BlockAt(e.block).next_copy;
  BlockAt(e.block).next_copy = kNone;
  FreeBlock(block);
}

void BlockCache::MakeCached(int32_t entry) {
  ++cached_;
  queue_.Touch(entry, HeadStart(EntryAt(entry)));
  if (EntryAt(entry).children == 0) queue_.Offer(entry);
}

uint64_t BlockCache::HeadStart(const Entry& entry) const {
  const double checkpoint = entry.checkpoint == kNone ? 0 : kCheckpointTurnovers;
  const auto depth = static_cast<double>(entry.depth);
  const double turnovers =
      checkpoint + kDoubleCostTurnovers * std::min(depth / kDoubleCostDepth, 4.0);
  return static_cast<uint64_t>(turnovers * static_cast<double>(blocks_.size()));
}

bool BlockCache::EvictOne() {
  const int32_t entry = queue_.Pop();
  if (entry == kNone) return false;
  const BlockHash& hash = EntryAt(entry).hash;
  ghosts_[hash.high & (ghosts_.size() - 1)] = hash.low;
  ++evicted_;
  Forget(entry);
  return true;
}

// The entry is cached and has no children. Its parent may become the next leaf.
void BlockCache::Forget(int32_t entry) {
  Entry& e = EntryAt(entry);
  while (e.checkpoint != kNone) {
    const int32_t slot = e.checkpoint;
    e.checkpoint = slots_.next(slot);
    slots_.Free(slot);
  }
  if (e.parent != kNone) {
    const Entry& parent = EntryAt(e.parent);
    const bool leaf = --EntryAt(e.parent).children == 0;
    if (leaf && BlockAt(parent.block).users == 0) queue_.Offer(e.parent);
  }
  index_.Erase(e.hash);
  --cached_;
  FreeBlock(e.block);
  e = {};
  free_entries_.push_back(entry);
}

void BlockCache::DropCached() {
  while (EvictOne()) {
  }
}

int32_t BlockCache::TakeCheckpoint() {
  int32_t owner = kNone;
  const int32_t slot = slots_.Take(&owner);
  if (owner != kNone) UnlinkCheckpoint(owner, slot);
  return slot;
}

void BlockCache::UnlinkCheckpoint(int32_t entry, int32_t slot) {
  Entry& e = EntryAt(entry);
  if (e.checkpoint == slot) {
    e.checkpoint = slots_.next(slot);
    return;
  }
  int32_t before = e.checkpoint;
  while (slots_.next(before) != slot) before = slots_.next(before);
  slots_.set_next(before, slots_.next(slot));
}

void BlockCache::BindCheckpoint(int32_t slot, int32_t entry, int64_t kind, int64_t floor) {
  if (FindCheckpoint(entry, kind) != kNone) return slots_.Free(slot);
  slots_.Bind(slot, entry, kind, floor, EntryAt(entry).checkpoint);
  EntryAt(entry).checkpoint = slot;
}

int32_t BlockCache::FindCheckpoint(int32_t entry, int64_t kind) const {
  int32_t slot = EntryAt(entry).checkpoint;
  while (slot != kNone && slots_.kind(slot) != kind) slot = slots_.next(slot);
  return slot;
}

int32_t BlockCache::AnyCheckpoint(int32_t entry) const { return EntryAt(entry).checkpoint; }

}  // namespace thalweg::cache
