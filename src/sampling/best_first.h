// The order of tokens: by logit, highest first, equal ones by id. All truncations keep a prefix of
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thalweg::sampling {

struct Entry {
  float logit = 0;
  int32_t token = 0;
};

inline bool Better(const Entry& a, const Entry& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// The first k of the order, in no order; fewer when fewer have a logit above -inf. k >= 1. Linear
// in the row whatever it holds.
void TakeBest(std::span<const float> logits, int64_t k, std::vector<Entry>* best);

struct RowSummary {
  Entry best = {};   // the first of the order
  bool nan = false;  // some logit is NaN; `best` passes over them
};

RowSummary Summarise(std::span<const float> logits);

// The highest of some logits, NaN passed over; -inf of none.
float Highest(std::span<const float> logits);

}  // namespace thalweg::sampling
