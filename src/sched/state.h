// The scheduler's state, and what its parts (planning, admission, preemption, advance) do to it.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cache/block_cache.h"
#include "sched/scheduler.h"
#include "sched/sequence.h"

namespace thalweg::sched {

// What one entry of a plan under way does.
struct PlannedRows {
  Sequence* sequence = nullptr;
  int64_t count = 0;  // rows; with drafts the most
  bool drafts = false;
  int64_t save_at = 0;  // rows that the checkpoint has
  bool sample = false;
  int32_t save = kNone;  // checkpoint slots
  int64_t save_kind = 0;
  int32_t restore = kNone;
};

struct PlanInFlight {
  uint64_t number = 0;
  std::vector<PlannedRows> rows = {};
};

// A checkpoint that a running prompt is going to leave.
struct PromisedSave {
  cache::BlockHash hash = {};  // of the block that ends there
  int64_t kind = 0;
  const Sequence* by = nullptr;
};

// What the cache has for a waiting sequence.
struct Match {
  std::vector<int32_t> entries = {};  // of the blocks from the first one on
  int32_t checkpoint = kNone;         // slot
  cache::ReuseStart start = {};
};

struct Scheduler::State {
  explicit State(const SchedulerOptions& o);

  // scheduler.cc: the life of a sequence.
  Status Submit(Request request);
  Status CheckRequest(const Request& request) const;
  void Stop(uint64_t number, Finish reason);
  void End(Sequence* s, Finish reason, Status status = {});
  void LetGo(Sequence* s);
  void ReleaseWhenIdle(Sequence* s);
  void Enqueue(Sequence* s);
  void Dequeue(const Sequence* s);
  void ExtendChain(Sequence* s, int64_t blocks) const;

  // planning.cc
  bool NextPlan(step::StepPlan* plan);
  int64_t DecodeBudget() const;
  int64_t PrefillsUnderWay() const;
  int64_t DraftsEach(int64_t budget) const;
  bool PromptsWantRows() const;
  int64_t DraftRoom() const;
  int64_t MostDrafts(const Sequence& s) const;
  int64_t PlanDecodes(int64_t budget);
  int64_t PlanDecode(Sequence* s, int64_t most);
  int64_t PlanPrefills(int64_t budget);
  int64_t PlanChunk(Sequence* s, int64_t budget);
  PlannedRows* PlanRows(Sequence* s, int64_t count, bool known, bool sample);
  bool EnsureBlocks(Sequence* s, int64_t rows);
  void FinishPlan();
  void CompactRunning();

  // admission.cc
  void Admit(int64_t* budget);
  bool TryAdmit(Sequence* s, int64_t* budget);
  bool MayReuse(const Sequence& s) const;
  Match FindMatch(const Sequence& s) const;
  int64_t BlocksToReserve(const Sequence& s) const;
  void Begin(Sequence* s, const Match& match);
  void CountAdmission(Sequence* s, const Match& match);
  void PushStart(const Sequence& s, const Match& match);

  // holds.cc: who waits for whom.
  bool Held(Sequence* s);
  bool StillHeld(const Sequence& s) const;
  bool HoldForBlocks(Sequence* s, const Match& match);
  bool HoldForSave(Sequence* s, const Match& match);
  void PromiseBlocks(Sequence* s);
  void KeepPromise(Sequence* s, int64_t block);
  void WithdrawPromises(Sequence* s);
  bool SavePromised(const cache::BlockHash& hash, int64_t kind) const;

  // saves.cc: which checkpoints a sequence leaves.
  int64_t Branch(const Sequence& s) const;
  void ChooseSaves(Sequence* s, const Match& match);
  int64_t SaveInterval(const Sequence& s) const;
  bool Worthwhile(const Sequence& s, int64_t position) const;
  bool IntervalIsOver(const Sequence& s, int64_t position) const;
  int64_t ChunkEnd(const Sequence& s, int64_t end) const;
  void SaveWhenDue(Sequence* s, PlannedRows* rows);
  bool TakesSave(Sequence* s, int64_t at);
  void WithdrawSave(const Sequence* s, int64_t position);
  void SettleSave(const PlannedRows& rows, bool done);

  // preemption.cc
  void Preempt(Sequence* s);
  bool MakeRoom(const Sequence& s);
  bool PreemptFor(const Sequence& s);
  void ForcePreemption();
  int64_t ReservableBlocks() const { return cache.available() - outstanding; }

  // advance.cc
  void Advance(const step::StepResult& result, const ResultPart& part, std::vector<Event>* events);
  void Retire(const PlannedRows& rows, const step::StepResult& result, size_t index);
  void Publish(Sequence* s);
  void Keep(Sequence* s, const PlannedRows& rows, int64_t count);
  void TakeTokens(Sequence* s, const step::StepResult& result, const step::SequenceResult& own);
  void TakeToken(Sequence* s, const step::SampledToken& token);

  // audit.cc
  SchedulerStats Stats() const;
  Status Audit() const;
  Status AuditSequence(const Sequence& s) const;
  Status AuditPlans() const;
  Status AuditCache() const;

  const SchedulerOptions options;
  cache::BlockCache cache;
  // Moves whenever blocks come back: what found no room before may find some now.
  uint64_t room_epoch = 1;
  int64_t outstanding = 0;  // blocks promised to running sequences and not taken yet

  std::unordered_map<uint64_t, std::unique_ptr<Sequence>> sequences;  // submit, stop, end
  std::vector<Sequence*> waiting;                                     // by key, larger first
  // Those with a slot; null where one was taken out while the list was walked.
  std::vector<Sequence*> running;
  int64_t draining = 0;  // of those: leaving or ended
  std::vector<int32_t> free_slots;
  std::vector<int32_t> pending_closes;  // go with the next plan
  std::vector<Event> pending_events;    // go with the next Advance

  // Blocks that running prompts are going to publish: name -> slot of the one that does.
  cache::HashIndex promised_blocks;
  std::vector<PromisedSave> promised_saves;

  std::vector<PlanInFlight> flight;  // oldest first: a ring over overlap_depth + 1 records
  size_t flight_begin = 0, flight_count = 0;
  step::StepPlan* plan = nullptr;  // under construction
  PlanInFlight* record = nullptr;
  uint64_t arrivals = 0;
  uint64_t next_number = 1;
  int64_t prompt_plans = 0;         // in a row that prompts wanted rows of, counted round
  int64_t drafted_lately = 0;       // drafts that ran in a step, the most of the last few
  size_t decode_cursor = 0;         // whose turn it is when decode rows exceed the budget
  std::vector<Sequence*> prefills;  // scratch
  SchedulerStats counters = {};
};

}  // namespace thalweg::sched
