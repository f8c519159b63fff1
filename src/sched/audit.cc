// What must hold between any two calls.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sched/state.h"

namespace thalweg::sched {
namespace {

Status Broken(std::string what) { return base::Internal("scheduler: " + std::move(what)); }

}  // namespace

SchedulerStats Scheduler::State::Stats() const {
  SchedulerStats stats = counters;
  stats.waiting = static_cast<int64_t>(waiting.size());
  stats.running = options.max_sequences - static_cast<int64_t>(free_slots.size());
  stats.held =
      std::count_if(waiting.begin(), waiting.end(), [](const Sequence* s) { return s->held; });
  stats.free_blocks = cache.free();
  stats.cached_blocks = cache.cached();
  stats.used_blocks = cache.blocks() - cache.available();
  stats.checkpoints_used = cache.checkpoints_used();
  stats.evicted_blocks = cache.evicted();
  return stats;
}

Status Scheduler::State::Audit() const {
  int64_t missing = 0, leaving = 0, listed = 0;
  std::set<int32_t> slots(free_slots.begin(), free_slots.end());
  for (const Sequence* s : running) {
    if (s == nullptr) continue;
    ++listed;
    missing += s->missing_reservation();
    leaving += s->phase == Phase::kRunning ? 0 : 1;
    if (!slots.insert(s->slot).second) return Broken(fmt::format("slot {} twice", s->slot));
    TW_TRY(AuditSequence(*s));
  }
  if (missing != outstanding) return Broken("promised blocks do not add up");
  if (leaving != draining) return Broken("sequences that drain do not add up");
  if (static_cast<int64_t>(slots.size()) != options.max_sequences) return Broken("a slot is lost");
  if (listed + static_cast<int64_t>(waiting.size()) != static_cast<int64_t>(sequences.size())) {
    return Broken("a sequence neither waits nor runs");
  }
  for (size_t i = 1; i < waiting.size(); ++i) {
    if (waiting[i - 1]->key < waiting[i]->key) return Broken("the queue is out of order");
  }
  if (outstanding > cache.available()) return Broken("more blocks are promised than there are");
  TW_TRY(AuditPlans());
  return AuditCache();
}

Status Scheduler::State::AuditSequence(const Sequence& s) const {
  const auto wrong = [&s](std::string_view what) {
    return Broken(fmt::format("sequence {}: {}", s.request.sequence, what));
  };
  if (s.phase == Phase::kWaiting) return wrong("runs and waits");
  const auto table = static_cast<int64_t>(s.blocks.size()) * cache::kBlockTokens;
  const int64_t behind = MostDrafts(s) > 0 ? s.plans_in_flight : 0;
  if (s.reach() > table) return wrong("has rows without a block");
  if (!s.broken && s.planned - behind > s.row_limit()) return wrong("has rows behind its end");
  if (!s.broken && s.planned > s.retired + s.ahead)
    return wrong("is sure of more rows than it has planned");
  if (s.retired > s.planned) return wrong("has results without rows");
  if (s.published > static_cast<int64_t>(s.blocks.size())) return wrong("named a foreign block");
  if (s.known_tokens() > s.end_tokens) return wrong("is longer than it may be");
  if (s.phase != Phase::kRunning && s.plans_in_flight == 0) return wrong("was not let go");
  return {};
}

// Plans under way and sequences agree on who uses whom.
Status Scheduler::State::AuditPlans() const {
  std::unordered_map<const Sequence*, int32_t> used;
  for (size_t i = 0; i < flight_count; ++i) {
    const PlanInFlight& p = flight[(flight_begin + i) % flight.size()];
    for (const PlannedRows& rows : p.rows) ++used[rows.sequence];
  }
  for (const Sequence* s : running) {
    if (s == nullptr) continue;
    const auto found = used.find(s);
    const int32_t plans = found == used.end() ? 0 : found->second;
    if (plans != s->plans_in_flight) {
      return Broken(fmt::format("sequence {} counts {} plans under way, there are {}",
                                s->request.sequence, s->plans_in_flight, plans));
    }
    used.erase(s);
  }
  return used.empty() ? Status() : Broken("a plan uses a sequence that is gone");
}

Status Scheduler::State::AuditCache() const {
  std::vector<int32_t> users(static_cast<size_t>(cache.blocks()));
  std::vector<int32_t> readers(static_cast<size_t>(options.checkpoints));
  std::vector<int32_t> writers(readers.size());
  for (const Sequence* s : running) {
    if (s == nullptr) continue;
    for (const int32_t b : s->blocks) ++users[static_cast<size_t>(b)];
  }
  for (size_t i = 0; i < flight_count; ++i) {
    for (const PlannedRows& rows : flight[(flight_begin + i) % flight.size()].rows) {
      if (rows.restore != kNone) ++readers[static_cast<size_t>(rows.restore)];
      if (rows.save != kNone) ++writers[static_cast<size_t>(rows.save)];
    }
  }
  int64_t promised = 0;
  for (const Sequence* s : running) {
    if (s == nullptr) continue;
    for (int64_t b = s->published; b < s->promised_end; ++b) {
      const auto at = static_cast<size_t>(b);
      promised += promised_blocks.Find(s->chain[at]) == s->slot ? 1 : 0;
    }
  }
  if (promised != promised_blocks.size()) return Broken("a promise has nobody to keep it");
  return cache.Audit(users, readers, writers);
}

}  // namespace thalweg::sched
