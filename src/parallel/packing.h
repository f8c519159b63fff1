// The two building blocks of expert placement (spec/decoding.md 7.3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thalweg::parallel {

// One replica of each item first, in order; then each further replica goes to the item whose
// replicas carry most each, the first one on ties. replicas >= loads.size(). The greedy choice
// makes the largest load of a replica as small as possible. item[i]: whose replica i is; count[e]:
// replicas of item e.
struct Replicas {
  std::vector<int32_t> item;
  std::vector<int32_t> count;
};
Replicas Replicate(std::span<const double> loads, int64_t replicas);

// Items in packs of equally many: by descending load (the first one on ties), each to the lightest
// pack that has room (the first one on ties). One item a pack: pack i is item i. loads.size() is a
// multiple of packs. Returns the items of pack 0 in the order in which they came, then of pack 1...
std::vector<int32_t> Pack(std::span<const double> loads, int64_t packs);

}  // namespace thalweg::parallel
