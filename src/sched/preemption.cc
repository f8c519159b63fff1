// Taking a running sequence's place: it is dropped and computed again later, to the same tokens.
#include <algorithm>

#include "base/check.h"
#include "base/rng.h"
#include "sched/state.h"

namespace thalweg::sched {
namespace {

// Whether `a` goes before `b`: lower priority, then the one that waited last.
bool GoesFirst(const Sequence& a, const Sequence& b) {
  if (a.request.priority != b.request.priority) return a.request.priority < b.request.priority;
  return a.key != b.key ? a.key < b.key : a.arrival > b.arrival;
}

template <typename Eligible>
Sequence* FirstToGo(const std::vector<Sequence*>& running, const Eligible& eligible) {
  Sequence* first = nullptr;
  for (Sequence* s : running) {
    if (s == nullptr || s->phase != Phase::kRunning || !eligible(*s)) continue;
    if (first == nullptr || GoesFirst(*s, *first)) first = s;
  }
  return first;
}

}  // namespace

// Results under way are waited for, so that no token is lost or sampled twice.
void Scheduler::State::Preempt(Sequence* s) {
  TW_CHECK(s->phase == Phase::kRunning);
  LetGo(s);
  s->phase = Phase::kLeaving;
  ReleaseWhenIdle(s);
}

// For a block that `s` was not promised. False: not in this plan.
bool Scheduler::State::MakeRoom(const Sequence& s) {
  if (draining > 0) return false;
  Sequence* victim = FirstToGo(running, [](const Sequence&) { return true; });
  TW_CHECK(victim != nullptr);
  const bool itself = victim == &s;
  Preempt(victim);
  return !itself && ReservableBlocks() > 0;
}

// Strictly lower priority only, and only those that would wait behind it: ageing that let a
// sequence run is not undone.
bool Scheduler::State::PreemptFor(const Sequence& s) {
  if (draining > 0) return false;
  const auto eligible = [&s](const Sequence& r) {
    return r.request.priority < s.request.priority && r.key < s.key;
  };
  int64_t room = ReservableBlocks();
  for (const Sequence* r : running) {
    if (r == nullptr || r->phase != Phase::kRunning || !eligible(*r)) continue;
    room += static_cast<int64_t>(r->blocks.size()) + r->missing_reservation();
  }
  if (room < BlocksToReserve(s)) return false;
  Sequence* victim = FirstToGo(running, eligible);
  if (victim == nullptr) return false;
  Preempt(victim);
  return draining == 0;
}

// For tests: chance is a function of the plan's number. A prompt that lost its prefill is spared
// until it has brought a token, so that everything ends.
void Scheduler::State::ForcePreemption() {
  if (options.preempt_every == 0 || running.empty()) return;
  const base::PhiloxCounter random = base::Philox4x32(
      {static_cast<uint32_t>(next_number), static_cast<uint32_t>(next_number >> 32), 0, 0},
      base::PhiloxKeyOf(options.preempt_every));
  if (random[0] % options.preempt_every != 0) return;
  Sequence* s = running[random[1] % running.size()];
  if (s == nullptr || s->phase != Phase::kRunning || s->spared) return;
  s->spared = true;
  Preempt(s);
}

}  // namespace thalweg::sched
