// Items of the parser, and a set of them.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "grammar/regex_arena.h"

namespace thalweg::grammar {

// Where a finished alternative returns to: to whatever waits for `rule` in row `origin`.
inline constexpr int32_t kTop = -1;   // an origin: the text is complete
inline constexpr int32_t kSelf = -2;  // an origin: the row that is being predicted from

struct Item {
  int32_t position = 0;           // of the program: the symbol that comes next
  RegexId expression = kNothing;  // what is left of that symbol when it is a regex
  int32_t origin = kTop;
  int32_t rule = 0;

  auto operator<=>(const Item&) const = default;
};

uint64_t HashOf(const Item& item);
uint64_t HashOf(std::span<const Item> items);

// Open addressing; empties in constant time. Holds its memory for the next use.
class ItemSet {
 public:
  void Clear();
  bool Insert(const Item& item);  // false: it was there

 private:
  struct Slot {
    Item item;
    uint32_t round = 0;  // filled in this one, or empty
  };
  void Grow();
  bool Place(const Item& item);

  std::vector<Slot> slots_ = std::vector<Slot>(64);
  size_t used_ = 0;
  uint32_t round_ = 1;
};

}  // namespace thalweg::grammar
