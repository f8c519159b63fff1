// Which requests run next with how many rows: a pure state machine over integers. No clock, no
// thread, no tensor; time is counted in steps (docs/contracts/sched.md).
//
// Three verbs: Submit a request, ask for the NextPlan, Advance with its result. Several plans may
// be under way: NextPlan plans from what is predicted (each sampled row brings one token, with
// drafts one at least and one for each row at most), Advance corrects.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cache/block_hash.h"
#include "cache/reuse.h"
#include "step/plan.h"

namespace thalweg::sched {

using cache::PrefixExactness;
using cache::ReplayReach;

struct SchedulerOptions {
  int64_t max_sequences = 1;   // slots: sequences that run at a time
  int64_t max_rows = 512;      // rows of one step
  int64_t context_tokens = 0;  // longest sequence
  int64_t blocks = 0;          // of 64 tokens, over all sequences and the prefix cache
  int64_t checkpoints = 0;     // copies of bounded state that the pool has room for
  int64_t checkpoint_interval_tokens = 512;  // of a prompt; a multiple of 64
  bool prefix_reuse = true;
  PrefixExactness exactness = PrefixExactness::kExact;
  ReplayReach reach = {};
  std::string cache_identity = {};  // weights revision and format: the root of every hash chain
  // Growth that admission sets aside for a sequence: this share of its max_tokens. 1: worst case,
  // nothing is ever preempted for memory. Less: more run at once, some may have to be recomputed.
  double admission_growth = 1;
  int64_t max_prefills = 8;    // prompts under way at a time
  int64_t ageing_steps = 256;  // waiting so long is worth one level of priority
  int64_t draft_tokens = 0;    // most drafts behind the newest token of a decoding sequence
  int64_t forced_tokens = 0;   // of a constrained one, where that is more: text that must come
  // Of RankedScheduler: how many there are, and whether what only the first can do (constraints and
  // logits processors, which are of its process) is kept there.
  int64_t ranks = 1;
  bool local_only_on_first = false;
  int64_t overlap_depth = 1;   // plans that may be under way beside the one that is planned
  uint64_t preempt_every = 0;  // testing: a pseudo-random running sequence is preempted about
                               // every so many plans; 0: never
};

struct Request {
  uint64_t sequence = 0;  // unique for the life of the scheduler
  std::vector<int32_t> prompt = {};
  int64_t max_tokens = 16;
  step::SamplingParams sampling = {};
  int priority = 0;          // higher runs first
  int64_t decoder_from = 0;  // replay cut of this prompt; 0: every row runs everything
  std::string salt = {};     // prefixes are shared within one salt only
  bool may_reuse = true;     // false: neither takes from the prefix cache nor waits for it
};

enum class Finish : uint8_t {
  kEndToken,
  kStopToken,
  kLength,     // max_tokens
  kContext,    // the context is full
  kCancelled,  // Cancel, or Stop with no reason of its own
  kError,
};
std::string_view FinishName(Finish finish);

// What Advance tells, in the order in which it happened.
struct Event {
  enum class Kind : uint8_t { kAdmitted, kToken, kPreempted, kFinished };
  Kind kind = Kind::kToken;
  uint64_t sequence = 0;
  // kToken: points into the StepResult that was given to Advance.
  const step::SampledToken* token = nullptr;
  // kFinished
  Finish finish = Finish::kLength;
  Status status = {};  // kError
  // kAdmitted: prompt tokens that need no rows because they came from the cache.
  int64_t cached_tokens = 0;
};

struct SchedulerStats {
  int64_t waiting = 0;
  int64_t running = 0;        // hold a slot
  int64_t held = 0;           // of those waiting: for a prefix that another one is computing
  int64_t free_blocks = 0;    // neither in use nor cached
  int64_t cached_blocks = 0;  // cached and not in use
  int64_t used_blocks = 0;
  int64_t checkpoints_used = 0;
  // Counted since the start.
  uint64_t plans = 0;
  uint64_t prefill_rows = 0;
  uint64_t decode_rows = 0;  // with drafts the most there may be
  uint64_t drafted = 0;      // drafts that ran
  uint64_t accepted = 0;     // of those
  uint64_t admitted = 0;
  uint64_t preempted = 0;
  uint64_t prompt_tokens = 0;
  uint64_t hit_tokens = 0;       // prompt tokens that needed no rows
  uint64_t replayed_tokens = 0;  // rows below a hit that were run again for their window state
  uint64_t evicted_blocks = 0;
  uint64_t miss_no_block = 0, miss_no_checkpoint = 0, miss_evicted = 0;  // why prompts ran cold
};

// The entries of a result of several ranks that are one scheduler's.
struct ResultPart {
  uint64_t number = 0;  // of its plan
  size_t first = 0, count = 0;
};

class Scheduler {
 public:
  // Options are valid (Check).
  static Status Check(const SchedulerOptions& options);
  explicit Scheduler(const SchedulerOptions& options);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler();

  // Queues a request. Errors leave the scheduler as it was: kInvalidArgument (empty prompt, number
  // already in use, max_tokens < 1), kOutOfRange (longer than the context, or than all blocks
  // together).
  Status Submit(Request request);
  // Ends a sequence at any moment; harmless when it is unknown or has ended. Its kFinished event
  // comes with the next Advance or TakeEvents, once.
  void Stop(uint64_t sequence, Finish reason = Finish::kCancelled);

  // Plans one more step; false: nothing can run now (no request, or overlap_depth plans under way
  // and the rest depends on them). Plans are numbered from 1 and advance in that order.
  bool NextPlan(step::StepPlan* plan);
  // The result of the oldest plan under way. Appends events.
  void Advance(const step::StepResult& result, std::vector<Event>* events);
  // The same where the plan was a part of one of several ranks (step/parts.h).
  void Advance(const step::StepResult& result, const ResultPart& part, std::vector<Event>* events);
  // Events that no result caused (cancelled while waiting).
  void TakeEvents(std::vector<Event>* events);

  // How many blocks at the beginning of such a chain (cache/block_hash.h) are cached, or being
  // computed.
  int64_t CachedBlocks(std::span<const cache::BlockHash> chain) const;

  bool idle() const;  // no request, nothing under way
  int64_t plans_in_flight() const;
  SchedulerStats stats() const;
  // Everything that must hold between any two calls, for tests and the simulator: no block owned
  // twice, reference counts equal owners, nothing freed while a plan under way uses it. Returns
  // what does not hold.
  Status Audit() const;
  // Drops every cached prefix that no sequence uses.
  void DropCache();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace thalweg::sched
