// A set of byte strings with a value each, for longest-prefix search: a double-array trie, one load
// per byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace thalweg::text {

class ByteTrie {
 public:
  struct Hit {
    int32_t value = kNone;
    size_t length = 0;  // bytes
  };
  static constexpr int32_t kNone = -1;

  ByteTrie() : ByteTrie(std::vector<std::pair<std::string_view, int32_t>>()) {}
  // Keys are not empty and not repeated; values are >= 0. The order does not matter.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> keys);

  // The longest key that is a prefix of `text`, or kNone.
  Hit LongestPrefix(std::string_view text) const {
    uint32_t node = 0;
    uint32_t best = 0;  // the root has no value
    size_t length = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const uint32_t next = units_[node].base() + static_cast<uint8_t>(text[i]);
      if (units_[next].parent != node) break;
      node = next;
      if (!units_[node].has_value()) continue;
      best = node;
      length = i + 1;
    }
    return {values_[best], length};
  }

  // The longest key that is a prefix of `text` and shorter than it, or kNone.
  Hit LongestProperPrefix(std::string_view text) const {
    return text.empty() ? Hit() : LongestPrefix(text.substr(0, text.size() - 1));
  }

  // The value of a key, or kNone.
  int32_t Find(std::string_view key) const {
    const Hit hit = LongestPrefix(key);
    return hit.length == key.size() ? hit.value : kNone;
  }

 private:
  static constexpr uint32_t kFree = 0xFFFFFFFF;

  // Child c of a node sits at base + c and names its parent. The array is 256 longer than the
  // largest base, so that base + c is always inside. Values lie apart: a search reads one of them.
  struct Unit {
    uint32_t base_and_flag = 0;  // base times two, plus one when the node has a value
    uint32_t parent = kFree;

    uint32_t base() const { return base_and_flag >> 1; }
    bool has_value() const { return (base_and_flag & 1) != 0; }
  };

  void Grow(size_t units);
  uint32_t FindBase(std::span<const uint8_t> labels);
  void Claim(uint32_t base, std::span<const uint8_t> labels, uint32_t parent);

  std::vector<Unit> units_;
  std::vector<int32_t> values_;  // [unit]
  uint32_t search_from_ = 1;     // below, hardly a unit is free
};

}  // namespace thalweg::text
