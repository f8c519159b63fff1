#include "cache/checkpoint_slots.h"

#include <fmt/format.h>

#include "base/check.h"

namespace thalweg::cache {

CheckpointSlots::CheckpointSlots(int64_t slots) : slots_(static_cast<size_t>(slots)) {
  for (int64_t i = slots; i-- > 0;) free_.push_back(static_cast<int32_t>(i));
}

int32_t CheckpointSlots::Take(int32_t* owner) {
  *owner = kNone;
  int32_t slot = kNone;
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
    ++used_;
  } else {
    slot = OldestUnpinned();
    if (slot == kNone) return kNone;
    *owner = At(slot).entry;
    Unlink(slot);
  }
  At(slot).use = Use::kWriting;
  return slot;
}

void CheckpointSlots::Bind(int32_t slot, int32_t entry, int64_t kind, int64_t floor, int32_t next) {
  Slot& s = At(slot);
  TW_CHECK(s.use == Use::kWriting);
  s.use = Use::kReady;
  s.entry = entry;
  s.kind = kind;
  s.floor = floor;
  s.next = next;
  Link(slot);
}

void CheckpointSlots::Free(int32_t slot) {
  Slot& s = At(slot);
  TW_CHECK(s.use != Use::kFree);
  TW_CHECK_EQ(s.pins, 0);
  if (s.use == Use::kReady) Unlink(slot);
  s = {};
  free_.push_back(slot);
  --used_;
}

void CheckpointSlots::Pin(int32_t slot) {
  TW_CHECK(At(slot).use == Use::kReady);
  ++At(slot).pins;
  Unlink(slot);
  Link(slot);
}

void CheckpointSlots::Unpin(int32_t slot) {
  TW_CHECK_GT(At(slot).pins, 0);
  --At(slot).pins;
}

void CheckpointSlots::Link(int32_t slot) {
  At(slot).older = newest_;
  At(slot).newer = kNone;
  (newest_ == kNone ? oldest_ : At(newest_).newer) = slot;
  newest_ = slot;
}

void CheckpointSlots::Unlink(int32_t slot) {
  const Slot& s = At(slot);
  (s.older == kNone ? oldest_ : At(s.older).newer) = s.newer;
  (s.newer == kNone ? newest_ : At(s.newer).older) = s.older;
}

int32_t CheckpointSlots::OldestUnpinned() const {
  int32_t slot = oldest_;
  while (slot != kNone && At(slot).pins > 0) slot = At(slot).newer;
  return slot;
}

Status CheckpointSlots::Audit() const {
  size_t linked = 0, ready = 0;
  for (int32_t s = oldest_; s != kNone; s = At(s).newer) {
    if (At(s).use != Use::kReady || ++linked > slots_.size()) {
      return base::Internal(fmt::format("checkpoint slot {} stands wrongly in the list", s));
    }
  }
  for (const Slot& s : slots_) ready += s.use == Use::kReady ? 1 : 0;
  if (ready != linked) return base::Internal("a ready checkpoint slot is missing from the list");
  if (used_ + static_cast<int64_t>(free_.size()) != static_cast<int64_t>(slots_.size())) {
    return base::Internal("checkpoint slots were lost");
  }
  return {};
}

}  // namespace thalweg::cache
