// What a verified block has touched of a sequence's state, and whether the part that is still
// needed is whole after some of its rows were rejected (spec/model.md 4.3, decoding.md 1.9).
// Nothing is copied: rings are longer than what is read, and lengths say what counts.
//
// Positions: a sequence of `length` tokens done has rows [0, length); the anchor, its newest token,
// stands at `length` and is the first row of the next block.
#pragma once

#include <cstdint>

namespace thalweg::spec {

// Rows of a block: the anchor and its drafts.
inline int64_t BlockRows(int64_t drafts) { return 1 + drafts; }

// Rows by which rings are longer than the window when so many blocks of at most `drafts` drafts may
// be under way before the first is known: 12 for two blocks of 5.
inline int64_t SlackRows(int64_t drafts, int64_t blocks_in_flight) {
  return blocks_in_flight * BlockRows(drafts);
}

// Tokens done when a block that began at `start` brought so many tokens: the anchor's row and those
// of the accepted drafts. The last token that came out has not been run.
inline int64_t LengthAfter(int64_t start, int64_t tokens) { return start + tokens; }

// The slots of a ring that rows [begin, end) fill, in one or two pieces.
struct RingSpan {
  int64_t first = 0;  // slot
  int64_t count = 0;
};
struct RingSpans {
  RingSpan head = {};
  RingSpan tail = {};  // from slot 0; empty when nothing wraps
};
RingSpans RingSlots(int64_t begin, int64_t end, int64_t ring_rows);

// The oldest position that is read when the next row stands at `length`. A row of the target sees
// itself and window - 1 before it; the draft module sees the whole window before its anchor's
// block, one more.
inline int64_t OldestForTarget(int64_t length, int64_t window) {
  return length - window + 1 > 0 ? length - window + 1 : 0;
}
inline int64_t OldestForDrafts(int64_t length, int64_t window) {
  return length - window > 0 ? length - window : 0;
}

// Rows were written up to `written`, and `length` of them stay. Whether a ring still holds [oldest,
// length), of which there may be none: a row at w takes the place of w - ring_rows.
inline bool RingHolds(int64_t oldest, int64_t length, int64_t written, int64_t ring_rows) {
  return oldest >= length || written - ring_rows <= oldest;
}

// Groups of two tokens (layers of ratio 2). Group g has tokens 2g and 2g + 1; behind the first its
// half stands in place g mod pending_rows until the second makes a row of it.
inline int64_t GroupOf(int64_t position) { return position / 2; }
// Whether the half group of token length - 1 is needed: the next row completes it.
inline bool NeedsHalf(int64_t length) { return length % 2 != 0; }
// Whether that half is still there: no later group has taken its place.
inline bool HalfHolds(int64_t length, int64_t written, int64_t pending_rows) {
  if (!NeedsHalf(length) || written <= length) return true;
  return GroupOf(written - 1) - GroupOf(length - 1) < pending_rows;
}

// Compressed rows of one layer that rejected tokens have completed: written, visible to nobody (a
// row is seen when all its tokens are below the length), and written again before they are. The
// first may hold a token that stays.
struct StaleRows {
  int64_t begin = 0;
  int64_t end = 0;
};
inline StaleRows StaleCompressed(int64_t length, int64_t written, int64_t ratio) {
  return {.begin = length / ratio, .end = written / ratio};
}

// The oldest token id that the Engram hash of the next row looks back on.
inline int64_t OldestForHistory(int64_t length, int64_t history_tokens) {
  return length - history_tokens > 0 ? length - history_tokens : 0;
}

// Sizes of one sequence's bounded state.
struct StateSizes {
  int64_t window = 0;
  int64_t ring_rows = 0;
  int64_t pending_rows = 0;  // 0: no layer of ratio 2
  int64_t history_tokens = 0;
  int64_t history_rows = 0;
};

// Everything above at once: whether a sequence that was written up to `written` may go on from
// `length`, for the target and the draft module.
bool MayGoOn(const StateSizes& sizes, int64_t length, int64_t written);

// The furthest that rows may be written while a sequence may still have to go on from `length` > 0.
int64_t FurthestRow(const StateSizes& sizes, int64_t length);

}  // namespace thalweg::spec
