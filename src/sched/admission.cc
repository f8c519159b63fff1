// Who gets a slot: in order of priority and age, with room for the worst case, after what is cached
// has been pinned.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/math.h"
#include "sched/state.h"

namespace thalweg::sched {
namespace {

// Waiting requests that one plan looks at; those in front are mostly held for one another.
constexpr size_t kAdmissionScan = 256;

}  // namespace

void Scheduler::State::Admit(int64_t* budget) {
  int64_t under_way = PrefillsUnderWay();
  size_t at = 0;
  while (*budget > 0 && under_way < options.max_prefills) {
    if (at >= waiting.size() || at >= kAdmissionScan) return;
    Sequence* s = waiting[at];
    // What cannot begin anyway is not looked up again: its prefix may be long.
    const bool no_room = free_slots.empty() || s->blocked_at == room_epoch;
    if (no_room ? s->held : Held(s)) {
      ++at;
      continue;
    }
    if (!TryAdmit(s, budget)) {
      // Nobody passes the first that finds no room: a large one would wait for ever.
      if (PreemptFor(*s)) continue;
      return;
    }
    if (s->prefilling()) ++under_way;
  }
}

bool Scheduler::State::TryAdmit(Sequence* s, int64_t* budget) {
  if (free_slots.empty() || s->blocked_at == room_epoch) return false;
  const Match match = FindMatch(*s);
  // The hit is pinned first, so that nothing that follows can evict it.
  for (const int32_t entry : match.entries) s->blocks.push_back(cache.Acquire(entry));
  s->reserved_blocks = BlocksToReserve(*s);
  if (s->missing_reservation() > ReservableBlocks()) {
    for (size_t b = s->blocks.size(); b-- > 0;) cache.Release(s->blocks[b]);
    s->blocks.clear();
    s->reserved_blocks = 0;
    s->blocked_at = room_epoch;
    return false;
  }
  outstanding += s->missing_reservation();
  // Pinned before its own rows may ask for a slot to save to.
  if (match.start.restore) cache.PinCheckpoint(match.checkpoint);
  Begin(s, match);
  PushStart(*s, match);
  *budget -= PlanChunk(s, *budget);
  if (match.start.restore) record->rows.back().restore = match.checkpoint;
  return true;
}

bool Scheduler::State::MayReuse(const Sequence& s) const {
  return options.prefix_reuse && s.request.may_reuse && s.request.sampling.prompt_logprobs < 0;
}

// The last token has to run: its logits are wanted.
Match Scheduler::State::FindMatch(const Sequence& s) const {
  Match match;
  const int64_t most = MayReuse(s) ? (s.known_tokens() - 1) / cache::kBlockTokens : 0;
  for (int64_t b = 0; b < most; ++b) {
    const int32_t entry = cache.Find(s.chain[static_cast<size_t>(b)]);
    if (entry == kNone) break;
    match.entries.push_back(entry);
  }
  const auto hit_blocks = static_cast<int64_t>(match.entries.size());
  cache::ReuseQuery query = {.hit = hit_blocks * cache::kBlockTokens,
                             .decoder_from = s.request.decoder_from};
  for (int64_t b = hit_blocks; b-- > 0 && match.checkpoint == kNone;) {
    const int64_t position = (b + 1) * cache::kBlockTokens;
    const int64_t kind = cache::CheckpointKind(position, query.decoder_from);
    const int32_t entry = match.entries[static_cast<size_t>(b)];
    match.checkpoint = kind == cache::kEncoderOnly ? cache.AnyCheckpoint(entry)
                                                   : cache.FindCheckpoint(entry, kind);
    if (match.checkpoint == kNone) continue;
    query.checkpoint = position;
    query.checkpoint_floor = cache.checkpoint_floor(match.checkpoint);
  }
  // What was preempted goes on as it began, as far as that can be had.
  const PrefixExactness exactness = s.counted ? PrefixExactness::kExact : options.exactness;
  match.start = cache::ChooseStart(query, options.reach, exactness);
  match.entries.resize(static_cast<size_t>(match.start.write_from / cache::kBlockTokens));
  return match;
}

// Everything known, the promised share of what may come, and the plans that run ahead.
int64_t Scheduler::State::BlocksToReserve(const Sequence& s) const {
  const auto left = static_cast<double>(s.end_tokens - s.known_tokens());
  const auto growth = static_cast<int64_t>(std::ceil(options.admission_growth * left));
  const int64_t ahead = (options.overlap_depth + 1) * (1 + MostDrafts(s)) - 1;
  const int64_t rows = s.known_tokens() + growth + ahead;
  return base::CeilDiv(std::min(rows, s.row_limit()), cache::kBlockTokens);
}

void Scheduler::State::Begin(Sequence* s, const Match& match) {
  Dequeue(s);
  s->phase = Phase::kRunning;
  s->held = false;
  s->slot = free_slots.back();
  free_slots.pop_back();
  s->start = s->planned = s->retired = match.start.start;
  s->ahead = 0;
  s->known = s->known_tokens();
  s->decoder_floor = match.start.decoder_from;
  s->published = static_cast<int64_t>(match.entries.size());
  s->tail_entry = match.entries.empty() ? kNone : match.entries.back();
  s->broken = false;
  running.push_back(s);
  if (options.prefix_reuse) {
    PromiseBlocks(s);
    ChooseSaves(s, match);
  }
  CountAdmission(s, match);
}

void Scheduler::State::CountAdmission(Sequence* s, const Match& match) {
  const int64_t cached = std::min(s->start, s->prompt_tokens);
  pending_events.push_back(
      {.kind = Event::Kind::kAdmitted, .sequence = s->request.sequence, .cached_tokens = cached});
  ++counters.admitted;
  const int64_t replayed = match.start.write_from - s->start;
  counters.replayed_tokens += replayed > 0 ? static_cast<uint64_t>(replayed) : 0;
  if (s->counted) return;
  s->counted = true;
  counters.prompt_tokens += static_cast<uint64_t>(s->prompt_tokens);
  counters.hit_tokens += static_cast<uint64_t>(cached);
  if (!MayReuse(*s) || s->start > 0 || s->known <= cache::kBlockTokens) return;
  if (s->published > 0) {
    ++counters.miss_no_checkpoint;
  } else if (cache.EvictedLately(s->chain.front())) {
    ++counters.miss_evicted;
  } else {
    ++counters.miss_no_block;
  }
}

void Scheduler::State::PushStart(const Sequence& s, const Match& match) {
  plan->starts.push_back({.slot = s.slot,
                          .sequence = s.request.sequence,
                          .tokens = s.tokens,
                          .prompt_tokens = s.prompt_tokens,
                          .end_tokens = s.end_tokens,
                          .sampling = s.request.sampling,
                          .start = match.start.start,
                          .restore_checkpoint = match.start.restore ? match.checkpoint : kNone,
                          .encoder_floor = match.start.encoder_floor,
                          .decoder_floor = match.start.decoder_floor,
                          .decoder_from = match.start.decoder_from,
                          .write_from = match.start.write_from});
  plan->blocks.insert(plan->blocks.end(), s.blocks.begin(), s.blocks.end());
}

}  // namespace thalweg::sched
