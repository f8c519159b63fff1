#include "grammar/earley_item.h"

#include <utility>

namespace thalweg::grammar {
namespace {

uint64_t Mix(uint64_t hash, uint64_t word) {
  const uint64_t product = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return product ^ product >> 32;
}

uint64_t Pair(int32_t a, int32_t b) {
  return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
}

}  // namespace

uint64_t HashOf(const Item& item) {
  const uint64_t first = Mix(0x51ED270B35A1F3C7u, Pair(item.position, item.expression));
  return Mix(first, Pair(item.origin, item.rule));
}

uint64_t HashOf(std::span<const Item> items) {
  uint64_t hash = items.size();
  for (const Item& item : items) {
    hash = Mix(hash + 0x2545F4914F6CDD1Du, Pair(item.position, item.expression));
    hash = Mix(hash, Pair(item.origin, item.rule));
  }
  return hash;
}

void ItemSet::Clear() {
  used_ = 0;
  if (++round_ != 0) return;
  round_ = 1;
  for (Slot& slot : slots_) slot.round = 0;
}

bool ItemSet::Place(const Item& item) {
  const size_t mask = slots_.size() - 1;
  size_t at = HashOf(item) & mask;
  for (; slots_[at].round == round_; at = (at + 1) & mask) {
    if (slots_[at].item == item) return false;
  }
  slots_[at] = {item, round_};
  return true;
}

bool ItemSet::Insert(const Item& item) {
  if (used_ * 2 >= slots_.size()) Grow();
  if (!Place(item)) return false;
  ++used_;
  return true;
}

void ItemSet::Grow() {
  std::vector<Slot> old(slots_.size() * 2);
  std::swap(old, slots_);
  for (const Slot& slot : old) {
    if (slot.round == round_) Place(slot.item);
  }
}

}  // namespace thalweg::grammar
