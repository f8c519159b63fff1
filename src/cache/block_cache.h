// The logical cache: which block of the pool holds which tokens, who uses it, and what may go
// (docs/contracts/cache.md). Counts blocks and tokens, never bytes.
//
// A block is free, in use (by one or more sequences) or cached (by none, but still found under its
// name). An *entry* is a name in the prefix index together with the block that answers to it. When
// two sequences computed the same tokens there are several copies; one is found, the others wait
// behind it and take its place when its last user leaves before theirs does. So an entry is in use
// whenever any sequence holds any copy of it, a sequence that holds an entry holds all its parents,
// and everything below a cached entry is cached: every cached block can be freed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "cache/block_hash.h"
#include "cache/checkpoint_slots.h"
#include "cache/eviction.h"
#include "cache/hash_index.h"

namespace thalweg::cache {

class BlockCache {
 public:
  static constexpr int32_t kNone = -1;

  BlockCache(int64_t blocks, int64_t checkpoints);

  int64_t blocks() const { return static_cast<int64_t>(blocks_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t cached() const { return cached_; }
  // What Take can hand out before anybody gives anything back.
  int64_t available() const { return free() + cached_; }
  uint64_t evicted() const { return evicted_; }
  int64_t checkpoints_used() const { return slots_.used(); }

  // The entry of that name, or kNone.
  int32_t Find(const BlockHash& hash) const { return index_.Find(hash); }
  // Whether a block of that name was evicted not long ago. May be wrong either way, rarely.
  bool EvictedLately(const BlockHash& hash) const;

  // One more user of the entry's block, which is returned.
  int32_t Acquire(int32_t entry);
  // A block with one user and no name. Needs available() > 0; cached blocks go when none is free.
  int32_t Take();
  // Gives the block its name: it holds the complete rows of the tokens behind `parent` (kNone: the
  // first of a chain). Its user holds the parent too. Returns the entry.
  int32_t Publish(int32_t block, const BlockHash& hash, int32_t parent);
  // One user less.
  void Release(int32_t block);
  // Every cached block is free again.
  void DropCached();

  // A slot for a checkpoint that a plan will write, or kNone when all are pinned.
  int32_t TakeCheckpoint();
  // It was written, at the end of the entry's block, by a sequence whose decoder began at `floor`.
  // Dropped when the entry has one of that kind.
  void BindCheckpoint(int32_t slot, int32_t entry, int64_t kind, int64_t floor);
  int64_t checkpoint_floor(int32_t slot) const { return slots_.floor(slot); }
  // It was not.
  void AbandonCheckpoint(int32_t slot) { slots_.Free(slot); }
  // The entry's checkpoint of that kind, or kNone. Any kind: see AnyCheckpoint.
  int32_t FindCheckpoint(int32_t entry, int64_t kind) const;
  int32_t AnyCheckpoint(int32_t entry) const;
  void PinCheckpoint(int32_t slot) { slots_.Pin(slot); }
  void UnpinCheckpoint(int32_t slot) { slots_.Unpin(slot); }

  // What must hold between any two calls. `users` [blocks]: how many sequences hold each block;
  // `readers` and `writers` [checkpoints]: plans under way that restore from or save to each slot.
  Status Audit(std::span<const int32_t> users, std::span<const int32_t> readers,
               std::span<const int32_t> writers) const;

 private:
  struct Block {
    int32_t users = 0;
    int32_t entry = kNone;
    int32_t next_copy = kNone;  // of the same entry, not found by name
  };
  struct Entry {
    BlockHash hash = {};
    int32_t block = kNone;  // the copy that is found
    int32_t copies = kNone;
    int32_t parent = kNone;
    int32_t children = 0;
    int32_t checkpoint = kNone;  // first of the list
    int64_t depth = 0;           // blocks up to and with this one
  };
  Block& BlockAt(int32_t block) { return blocks_[static_cast<size_t>(block)]; }
  Entry& EntryAt(int32_t entry) { return entries_[static_cast<size_t>(entry)]; }
  const Entry& EntryAt(int32_t entry) const { return entries_[static_cast<size_t>(entry)]; }

  int32_t NewEntry(int32_t block, const BlockHash& hash, int32_t parent);
  void AddCopy(int32_t entry, int32_t block);
  void RemoveCopy(int32_t entry, int32_t block);
  void FreeBlock(int32_t block);
  void MakeCached(int32_t entry);
  void Forget(int32_t entry);
  bool EvictOne();
  void UnlinkCheckpoint(int32_t entry, int32_t slot);
  uint64_t HeadStart(const Entry& entry) const;

  Status AuditBlocks(std::span<const int32_t> users) const;
  Status AuditEntry(int32_t entry) const;
  Status AuditCheckpoints(std::span<const int32_t> readers, std::span<const int32_t> writers) const;

  std::vector<Block> blocks_;
  std::vector<int32_t> free_;
  std::vector<Entry> entries_;  // as many as blocks
  std::vector<int32_t> free_entries_;
  HashIndex index_;
  EvictionQueue queue_;
  CheckpointSlots slots_;
  std::vector<uint64_t> ghosts_;  // names of evicted blocks, newest over older
  int64_t cached_ = 0;
  uint64_t evicted_ = 0;
};

}  // namespace thalweg::cache
