// Who waits for whom: a request whose prefix a running prompt is computing waits for it instead of
// computing it again. Promises are kept by running sequences alone, and withdrawn when they end or
// leave, so nobody waits for something that will not come.
#include <algorithm>

#include "sched/state.h"

namespace thalweg::sched {
namespace {

// A request waits for so many others and no more: newcomers that promise ever more cannot keep it.
constexpr int32_t kMaxHolds = 8;

}  // namespace

bool Scheduler::State::Held(Sequence* s) {
  if (!MayReuse(*s)) return false;
  if (s->held && StillHeld(*s)) return true;
  s->held = false;
  if (s->holds == kMaxHolds) return false;
  if (promised_blocks.size() == 0 && promised_saves.empty()) return false;
  const Match match = FindMatch(*s);
  if (!HoldForBlocks(s, match) && !HoldForSave(s, match)) return false;
  s->held = true;
  ++s->holds;
  return true;
}

bool Scheduler::State::StillHeld(const Sequence& s) const {
  if (s.held_for_save) return SavePromised(s.held_on, s.held_kind);
  return promised_blocks.Find(s.held_on) != kNone;
}

// The chain goes on in blocks that are being computed: the last of them is waited for.
bool Scheduler::State::HoldForBlocks(Sequence* s, const Match& match) {
  const auto most = static_cast<size_t>((s->known_tokens() - 1) / cache::kBlockTokens);
  size_t b = match.entries.size();
  while (b < most &&
         (promised_blocks.Find(s->chain[b]) != kNone || cache.Find(s->chain[b]) != kNone)) {
    ++b;
  }
  while (b > match.entries.size() && promised_blocks.Find(s->chain[b - 1]) == kNone) --b;
  if (b == match.entries.size()) return false;
  const bool bounded = options.exactness == PrefixExactness::kBounded;
  if (bounded && static_cast<int64_t>(b) * cache::kBlockTokens <= options.reach.window)
    return false;
  s->held_for_save = false;
  s->held_on = s->chain[b - 1];
  return true;
}

// A checkpoint that would spare it rows is on its way.
bool Scheduler::State::HoldForSave(Sequence* s, const Match& match) {
  for (size_t b = match.entries.size(); b-- > 0;) {
    const auto position = static_cast<int64_t>(b + 1) * cache::kBlockTokens;
    if (position <= match.start.start) return false;
    const int64_t kind = cache::CheckpointKind(position, s->request.decoder_from);
    if (!SavePromised(s->chain[b], kind)) continue;
    s->held_for_save = true;
    s->held_on = s->chain[b];
    s->held_kind = kind;
    return true;
  }
  return false;
}

bool Scheduler::State::SavePromised(const cache::BlockHash& hash, int64_t kind) const {
  return std::any_of(promised_saves.begin(), promised_saves.end(), [&](const PromisedSave& p) {
    return p.hash == hash && (kind == cache::kEncoderOnly || p.kind == kind);
  });
}

void Scheduler::State::PromiseBlocks(Sequence* s) {
  s->promised_end = s->known / cache::kBlockTokens;
  ExtendChain(s, s->promised_end);
  for (int64_t b = s->published; b < s->promised_end; ++b) {
    const cache::BlockHash& hash = s->chain[static_cast<size_t>(b)];
    if (promised_blocks.Find(hash) == kNone) promised_blocks.Insert(hash, s->slot);
  }
}

void Scheduler::State::KeepPromise(Sequence* s, int64_t block) {
  const cache::BlockHash& hash = s->chain[static_cast<size_t>(block)];
  if (promised_blocks.Find(hash) == s->slot) promised_blocks.Erase(hash);
}

void Scheduler::State::WithdrawPromises(Sequence* s) {
  for (int64_t b = s->published; b < s->promised_end; ++b) KeepPromise(s, b);
  s->promised_end = 0;
  std::erase_if(promised_saves, [s](const PromisedSave& p) { return p.by == s; });
}

}  // namespace thalweg::sched
