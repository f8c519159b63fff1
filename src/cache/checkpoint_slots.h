// Checkpoint slots: each has room for a copy of one sequence's bounded state at a block boundary
// (window rings, half groups, Engram history). This is the bookkeeping; the copies are the rank's.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace thalweg::cache {

class CheckpointSlots {
 public:
  static constexpr int32_t kNone = -1;

  explicit CheckpointSlots(int64_t slots);

  int64_t used() const { return used_; }

  // A slot to be written: a free one, or the one that went unused for longest and is not pinned.
  // It is pinned by its writer and cannot be found. kNone: all are pinned. `owner` receives the
  // entry whose checkpoint had to go, or kNone.
  int32_t Take(int32_t* owner);
  // The copy exists: from now on it belongs to `entry`, with `next` behind it in the entry's list.
  // `floor`: where the decoder of its sequence began.
  void Bind(int32_t slot, int32_t entry, int64_t kind, int64_t floor, int32_t next);
  // Free again. Neither pinned by a reader nor in any list any more.
  void Free(int32_t slot);
  // A plan under way reads it. Pinning is a use.
  void Pin(int32_t slot);
  void Unpin(int32_t slot);

  int32_t entry(int32_t slot) const { return At(slot).entry; }
  int64_t kind(int32_t slot) const { return At(slot).kind; }
  int64_t floor(int32_t slot) const { return At(slot).floor; }
  int32_t next(int32_t slot) const { return At(slot).next; }
  void set_next(int32_t slot, int32_t next) { At(slot).next = next; }
  int32_t pins(int32_t slot) const { return At(slot).pins; }
  bool writing(int32_t slot) const { return At(slot).use == Use::kWriting; }

  Status Audit() const;

 private:
  enum class Use : uint8_t { kFree, kWriting, kReady };
  struct Slot {
    Use use = Use::kFree;
    int32_t entry = kNone;
    int64_t kind = 0;
    int64_t floor = 0;
    int32_t next = kNone;   // of the same entry
    int32_t pins = 0;       // of readers
    int32_t older = kNone;  // ready ones, by last use
    int32_t newer = kNone;
  };
  Slot& At(int32_t slot) { return slots_[static_cast<size_t>(slot)]; }
  const Slot& At(int32_t slot) const { return slots_[static_cast<size_t>(slot)]; }
  void Link(int32_t slot);
  void Unlink(int32_t slot);
  int32_t OldestUnpinned() const;

  std::vector<Slot> slots_;
  std::vector<int32_t> free_;
  int32_t oldest_ = kNone, newest_ = kNone;
  int64_t used_ = 0;
};

}  // namespace thalweg::cache
