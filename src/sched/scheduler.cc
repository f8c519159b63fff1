#include "sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/math.h"
#include "sched/state.h"

namespace thalweg::sched {
namespace {

// Bounds of options, generous: they keep sums of keys and sizes inside 64 bits.
constexpr int64_t kMaxSequences = 1 << 16;
constexpr int64_t kMaxRanks = 4096;
constexpr int64_t kMaxBlocks = 1 << 28;
constexpr int64_t kMaxContextTokens = int64_t{1} << 32;
constexpr int64_t kMaxAgeingSteps = 1 << 24;
constexpr int64_t kMaxOverlapDepth = 16;
constexpr int64_t kMaxDraftTokens = 64;

Status CheckRange(std::string_view name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return base::InvalidArgument(
      fmt::format("{} is {}; it must be from {} to {}", name, value, least, most));
}

Status CheckReach(const ReplayReach& reach) {
  TW_TRY(CheckRange("window", reach.window, 1, kMaxContextTokens));
  TW_TRY(CheckRange("window layers", reach.window_layers, 0, 1 << 16));
  return CheckRange("encoder layers", reach.encoder_layers, 0, reach.window_layers);
}

}  // namespace

std::string_view FinishName(Finish finish) {
  switch (finish) {
    case Finish::kEndToken: return "end token";
    case Finish::kStopToken: return "stop token";
    case Finish::kLength: return "length";
    case Finish::kContext: return "context";
    case Finish::kCancelled: return "cancelled";
    case Finish::kError: return "error";
  }
  return "";
}

Status Scheduler::Check(const SchedulerOptions& o) {
  TW_TRY(CheckRange("max_sequences", o.max_sequences, 1, kMaxSequences));
  TW_TRY(CheckRange("ranks", o.ranks, 1, kMaxRanks));
  TW_TRY(CheckRange("max_rows", o.max_rows, 1, 1 << 24));
  TW_TRY(CheckRange("context_tokens", o.context_tokens, 2, kMaxContextTokens));
  TW_TRY(CheckRange("blocks", o.blocks, 1, kMaxBlocks));
  TW_TRY(CheckRange("checkpoints", o.checkpoints, 0, kMaxBlocks));
  TW_TRY(CheckRange("checkpoint_interval_tokens", o.checkpoint_interval_tokens, cache::kBlockTokens,
                    kMaxContextTokens));
  if (o.checkpoint_interval_tokens % cache::kBlockTokens != 0) {
    return base::InvalidArgument(
        fmt::format("checkpoint_interval_tokens is {}; it must be a multiple of {}",
                    o.checkpoint_interval_tokens, cache::kBlockTokens));
  }
  if (!(o.admission_growth >= 0 && o.admission_growth <= 1)) {
    return base::InvalidArgument(
        fmt::format("admission_growth is {}; it must be from 0 to 1", o.admission_growth));
  }
  TW_TRY(CheckRange("max_prefills", o.max_prefills, 1, kMaxSequences));
  TW_TRY(CheckRange("ageing_steps", o.ageing_steps, 1, kMaxAgeingSteps));
  TW_TRY(CheckRange("draft_tokens", o.draft_tokens, 0, kMaxDraftTokens));
  TW_TRY(CheckRange("forced_tokens", o.forced_tokens, 0, kMaxDraftTokens));
  TW_TRY(CheckRange("overlap_depth", o.overlap_depth, 0, kMaxOverlapDepth));
  return CheckReach(o.reach);
}

Scheduler::State::State(const SchedulerOptions& o)
    : options(o), cache(o.blocks, o.checkpoints), flight(static_cast<size_t>(o.overlap_depth) + 1) {
  for (int64_t i = o.max_sequences; i-- > 0;) free_slots.push_back(static_cast<int32_t>(i));
}

Status Scheduler::State::CheckRequest(const Request& r) const {
  if (r.prompt.empty()) return base::InvalidArgument("the prompt is empty");
  if (r.max_tokens < 1) {
    return base::InvalidArgument(fmt::format("max_tokens is {}; at least 1", r.max_tokens));
  }
  if (sequences.contains(r.sequence)) {
    return base::InvalidArgument(fmt::format("sequence {} is already there", r.sequence));
  }
  const auto prompt = static_cast<int64_t>(r.prompt.size());
  if (prompt >= options.context_tokens) {
    return base::OutOfRange(fmt::format(
        "the prompt has {} tokens; with a context of {} it may have {}: shorten it or raise the "
        "context",
        prompt, options.context_tokens, options.context_tokens - 1));
  }
  const int64_t rows = prompt - 1 + std::min(r.max_tokens, options.context_tokens - prompt);
  if (base::CeilDiv(rows, cache::kBlockTokens) > options.blocks) {
    return base::OutOfRange(fmt::format(
        "{} prompt tokens and {} new ones do not fit the cache of {} tokens: ask for less or give "
        "it more memory",
        prompt, r.max_tokens, options.blocks * cache::kBlockTokens));
  }
  if (r.decoder_from < 0 || r.decoder_from >= prompt) {
    return base::InvalidArgument(
        fmt::format("decoder_from is {} of {} prompt tokens", r.decoder_from, prompt));
  }
  if (r.sampling.prompt_logprobs >= 0 && r.decoder_from > 0) {
    return base::InvalidArgument("prompt_logprobs need every row: decoder_from must be 0");
  }
  return {};
}

Status Scheduler::State::Submit(Request request) {
  TW_TRY(CheckRequest(request));
  auto owned = std::make_unique<Sequence>();
  Sequence* s = owned.get();
  s->request = std::move(request);
  s->tokens.swap(s->request.prompt);
  s->prompt_tokens = s->known_tokens();
  s->end_tokens =
      s->prompt_tokens + std::min(s->request.max_tokens, options.context_tokens - s->prompt_tokens);
  s->arrival = ++arrivals;
  s->key = s->request.priority * options.ageing_steps - static_cast<int64_t>(next_number);
  if (options.prefix_reuse) {
    s->root = cache::RootHash(options.cache_identity, s->request.salt);
    ExtendChain(s, s->prompt_tokens / cache::kBlockTokens);
  }
  sequences.emplace(s->request.sequence, std::move(owned));
  Enqueue(s);
  return {};
}

void Scheduler::State::ExtendChain(Sequence* s, int64_t blocks) const {
  for (auto b = static_cast<int64_t>(s->chain.size()); b < blocks; ++b) {
    const std::span<const int32_t> tokens(s->tokens);
    const auto from = static_cast<size_t>(b * cache::kBlockTokens);
    const cache::BlockHash parent = b == 0 ? s->root : s->chain.back();
    s->chain.push_back(cache::ChainHash(parent, tokens.subspan(from, cache::kBlockTokens)));
  }
}

void Scheduler::State::Enqueue(Sequence* s) {
  s->phase = Phase::kWaiting;
  s->held = false;
  s->blocked_at = 0;
  const auto before = [](const Sequence* a, const Sequence* b) {
    return a->key != b->key ? a->key > b->key : a->arrival < b->arrival;
  };
  waiting.insert(std::upper_bound(waiting.begin(), waiting.end(), s, before), s);
}

void Scheduler::State::Dequeue(const Sequence* s) {
  waiting.erase(std::find(waiting.begin(), waiting.end(), s));
}

void Scheduler::State::Stop(uint64_t number, Finish reason) {
  const auto found = sequences.find(number);
  if (found == sequences.end() || found->second->phase == Phase::kEnded) return;
  End(found->second.get(), reason);
}

// The event is out at once; slot and blocks follow when nothing under way uses them.
void Scheduler::State::End(Sequence* s, Finish reason, Status status) {
  pending_events.push_back({.kind = Event::Kind::kFinished,
                            .sequence = s->request.sequence,
                            .finish = reason,
                            .status = std::move(status)});
  if (s->phase == Phase::kWaiting) {
    Dequeue(s);
    sequences.erase(s->request.sequence);
    return;
  }
  if (s->phase == Phase::kRunning) LetGo(s);
  s->phase = Phase::kEnded;
  ReleaseWhenIdle(s);
}

// No more rows from now on: nobody may count on it, and it counts on nothing.
void Scheduler::State::LetGo(Sequence* s) {
  outstanding -= s->missing_reservation();
  s->reserved_blocks = 0;
  WithdrawPromises(s);
  s->saves.clear();
  s->save_interval = 0;
  ++draining;
}

void Scheduler::State::ReleaseWhenIdle(Sequence* s) {
  if (s->plans_in_flight > 0) return;
  for (size_t b = s->blocks.size(); b-- > 0;) cache.Release(s->blocks[b]);
  s->blocks.clear();
  ++room_epoch;
  --draining;
  pending_closes.push_back(s->slot);
  free_slots.push_back(s->slot);
  s->slot = kNone;
  *std::find(running.begin(), running.end(), s) = nullptr;
  if (s->phase == Phase::kEnded) {
    sequences.erase(s->request.sequence);
    return;
  }
  pending_events.push_back({.kind = Event::Kind::kPreempted, .sequence = s->request.sequence});
  ++counters.preempted;
  if (options.prefix_reuse) ExtendChain(s, s->known_tokens() / cache::kBlockTokens);
  Enqueue(s);
}

Scheduler::Scheduler(const SchedulerOptions& options) {
  const Status status = Check(options);
  if (!status.ok()) base::CheckFailed(__FILE__, __LINE__, "Check(options)", status.ToString());
  state_ = std::make_unique<State>(options);
}
Scheduler::~Scheduler() = default;

Status Scheduler::Submit(Request request) { return state_->Submit(std::move(request)); }
void Scheduler::Stop(uint64_t sequence, Finish reason) { state_->Stop(sequence, reason); }
bool Scheduler::NextPlan(step::StepPlan* plan) { return state_->NextPlan(plan); }
void Scheduler::Advance(const step::StepResult& result, std::vector<Event>* events) {
  Advance(result, {result.number, 0, result.sequences.size()}, events);
}
void Scheduler::Advance(const step::StepResult& result, const ResultPart& part,
                        std::vector<Event>* events) {
  state_->Advance(result, part, events);
}
int64_t Scheduler::CachedBlocks(std::span<const cache::BlockHash> chain) const {
  const auto known = [this](const cache::BlockHash& hash) {
    return state_->cache.Find(hash) != kNone || state_->promised_blocks.Find(hash) != kNone;
  };
  return std::find_if_not(chain.begin(), chain.end(), known) - chain.begin();
}
void Scheduler::TakeEvents(std::vector<Event>* events) {
  for (Event& event : state_->pending_events) events->push_back(std::move(event));
  state_->pending_events.clear();
}
bool Scheduler::idle() const { return state_->sequences.empty() && state_->flight_count == 0; }
int64_t Scheduler::plans_in_flight() const { return static_cast<int64_t>(state_->flight_count); }
SchedulerStats Scheduler::stats() const { return state_->Stats(); }
Status Scheduler::Audit() const { return state_->Audit(); }
void Scheduler::DropCache() {
  state_->cache.DropCached();
  ++state_->room_epoch;
}

}  // namespace thalweg::sched
