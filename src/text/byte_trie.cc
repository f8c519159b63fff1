#include "text/byte_trie.h"

#include <algorithm>
#include <deque>

namespace thalweg::text {
namespace {

constexpr int kTriesPerNode = 64;  // free places looked at before a node goes to the end

// The keys [first, last) share their first `depth` bytes, which lead to `node`.
struct Range {
  size_t first = 0;
  size_t last = 0;
  size_t depth = 0;
  uint32_t node = 0;
};

}  // namespace

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> keys) {
  std::sort(keys.begin(), keys.end());
  Grow(1 + 256);
  units_[0].parent = kFree - 1;  // the root is nobody's child
  // Breadth first: the nodes that every search passes lie close together.
  std::deque<Range> queue = {{0, keys.size(), 0, 0}};
  while (!queue.empty()) {
    Range range = queue.front();
    queue.pop_front();
    if (range.first < range.last && keys[range.first].first.size() == range.depth) {
      units_[range.node].base_and_flag = 1;
      values_[range.node] = keys[range.first++].second;
    }
    std::vector<uint8_t> labels;
    std::vector<size_t> starts;
    for (size_t i = range.first; i < range.last; ++i) {
      const auto label = static_cast<uint8_t>(keys[i].first[range.depth]);
      if (!labels.empty() && labels.back() == label) continue;
      labels.push_back(label);
      starts.push_back(i);
    }
    if (labels.empty()) continue;
    starts.push_back(range.last);
    const uint32_t base = FindBase(labels);
    Claim(base, labels, range.node);
    for (size_t c = 0; c < labels.size(); ++c) {
      queue.push_back({starts[c], starts[c + 1], range.depth + 1, base + labels[c]});
    }
  }
  units_.shrink_to_fit();
  values_.shrink_to_fit();
}

void ByteTrie::Grow(size_t units) {
  units_.resize(units);
  values_.resize(units, kNone);
}

// A base under which every label is free. Labels are ascending.
uint32_t ByteTrie::FindBase(std::span<const uint8_t> labels) {
  while (search_from_ < units_.size() && units_[search_from_].parent != kFree) ++search_from_;
  const auto size = static_cast<uint32_t>(units_.size());
  int tries = 0;
  for (uint32_t at = std::max<uint32_t>(search_from_, labels[0] + 1u); at < size; ++at) {
    if (units_[at].parent != kFree) continue;
    const uint32_t base = at - labels[0];
    const bool fits = std::all_of(labels.begin(), labels.end(), [&](uint8_t label) {
      return base + label >= size || units_[base + label].parent == kFree;
    });
    if (fits) return base;
    if (++tries == kTriesPerNode) break;
  }
  return size;
}

void ByteTrie::Claim(uint32_t base, std::span<const uint8_t> labels, uint32_t parent) {
  if (base + 256 > units_.size()) Grow(base + 256);
  units_[parent].base_and_flag |= base << 1;
  for (const uint8_t label : labels) units_[base + label].parent = parent;
}

}  // namespace thalweg::text
