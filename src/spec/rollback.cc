#include "spec/rollback.h"

#include <algorithm>

#include "base/check.h"

namespace thalweg::spec {

RingSpans RingSlots(int64_t begin, int64_t end, int64_t ring_rows) {
  TW_CHECK(begin <= end && end - begin <= ring_rows);
  const int64_t first = begin % ring_rows;
  const int64_t head = std::min(end - begin, ring_rows - first);
  return {.head = {.first = first, .count = head}, .tail = {.count = end - begin - head}};
}

bool MayGoOn(const StateSizes& s, int64_t length, int64_t written) {
  if (!RingHolds(OldestForDrafts(length, s.window), length, written, s.ring_rows)) return false;
  if (s.pending_rows > 0 && !HalfHolds(length, written, s.pending_rows)) return false;
  return RingHolds(OldestForHistory(length, s.history_tokens), length, written, s.history_rows);
}

int64_t FurthestRow(const StateSizes& s, int64_t length) {
  TW_CHECK(length > 0 && s.window > 0);  // something is needed, so there is an end
  int64_t written = length;
  while (MayGoOn(s, length, written + 1)) ++written;
  return written;
}

}  // namespace thalweg::spec
