#include "cache/reuse.h"

#include <algorithm>

#include "base/check.h"

namespace thalweg::cache {
namespace {

// What all starts have in common; as it stands, the one that computes every row again.
ReuseStart FromZero(const ReuseQuery& q) {
  return {.decoder_from = q.decoder_from, .write_from = q.hit};
}

ReuseStart FromCheckpoint(const ReuseQuery& q) {
  ReuseStart s = FromZero(q);
  s.start = q.checkpoint;
  s.restore = true;
  if (q.checkpoint > q.decoder_from) s.decoder_from = s.decoder_floor = q.checkpoint_floor;
  s.exact_from = q.checkpoint;
  return s;
}

// Rows run from `start` (rounded down to a whole group) and nothing is there below.
ReuseStart FromReplay(const ReuseQuery& q, int64_t start, int64_t decoder_begins) {
  if (start <= 1) return FromZero(q);
  ReuseStart s = FromZero(q);
  s.start = start & ~int64_t{1};
  s.encoder_floor = s.start;
  s.exact_from = std::min(q.hit, q.decoder_from);
  if (decoder_begins > q.decoder_from) {
    s.decoder_from = s.decoder_floor = decoder_begins;
    s.exact_from = q.hit;
  }
  return s;
}

ReuseStart ExactReplay(const ReuseQuery& q, const ReplayReach& reach) {
  const int64_t step = reach.window - 1;
  const int64_t drafts = reach.draft ? 1 : 0;
  const int64_t decoder_layers = reach.window_layers - reach.encoder_layers + drafts;
  const int64_t forgotten = q.hit - decoder_layers * step;
  const int64_t from = q.hit <= q.decoder_from ? q.hit : std::max(q.decoder_from, forgotten);
  return FromReplay(q, from - reach.encoder_layers * step, std::max(from, q.decoder_from));
}

// One window before the first new row, whatever the depth.
ReuseStart BoundedReplay(const ReuseQuery& q, const ReplayReach& reach) {
  const int64_t before_hit = (q.hit - reach.window) & ~int64_t{1};
  ReuseStart s =
      before_hit > q.decoder_from
          ? FromReplay(q, before_hit, before_hit)
          : FromReplay(q, std::min(q.hit, q.decoder_from) - reach.window, q.decoder_from);
  s.exact_from = s.start > 0 ? q.hit : 0;
  return s;
}

}  // namespace

ReuseStart ChooseStart(const ReuseQuery& query, const ReplayReach& reach,
                       PrefixExactness exactness) {
  TW_CHECK_LE(query.checkpoint, query.hit);
  const bool bounded = exactness == PrefixExactness::kBounded;
  ReuseQuery q = query;
  // A hit of one window would be replayed whole.
  if (bounded && q.hit <= reach.window) q.hit = q.checkpoint = 0;
  const ReuseStart replay = bounded ? BoundedReplay(q, reach) : ExactReplay(q, reach);
  return q.checkpoint > 0 && q.checkpoint >= replay.start ? FromCheckpoint(q) : replay;
}

}  // namespace thalweg::cache
