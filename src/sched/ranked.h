// The schedulers of several ranks as one (spec/decoding.md 7.1): each request lives on one rank,
// with that rank's own slots, blocks and cached prefixes, and never moves; one plan holds what all
// ranks do in one step (step/parts.h). With one rank it is that rank's scheduler and nothing else.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sched/scheduler.h"

namespace thalweg::sched {

class RankedScheduler {
 public:
  // `options` are of one rank, but for options.ranks.
  explicit RankedScheduler(const SchedulerOptions& options);
  ~RankedScheduler();

  // The verbs of Scheduler. A request goes to the rank on which it would be done first: what is
  // planned, waits and was handed out a moment ago counts at once, and so does the part of its
  // prompt that the rank has cached or computes already. Its errors are those of Scheduler.
  Status Submit(Request request);
  void Stop(uint64_t sequence, Finish reason = Finish::kCancelled);
  bool NextPlan(step::StepPlan* plan);
  void Advance(const step::StepResult& result, std::vector<Event>* events);
  void TakeEvents(std::vector<Event>* events);
  bool idle() const;
  // Sums over ranks.
  SchedulerStats stats() const;
  Status Audit() const;
  void DropCache();

  int64_t ranks() const { return static_cast<int64_t>(ranks_.size()); }
  // Rows that are expected of a rank's requests; nothing with one rank.
  int64_t WorkOf(int64_t rank) const { return work_[static_cast<size_t>(rank)]; }

 private:
  // A request on its way: where, and what is still to come.
  struct Placed {
    size_t rank = 0;
    int64_t prompt = 0;  // rows until its first token
    int64_t tokens = 0;  // that are expected behind it
  };
  struct Part {
    size_t rank = 0;
    ResultPart entries = {};
  };

  size_t Choose(const Request& request, int64_t* prompt) const;
  std::vector<cache::BlockHash> ChainOf(const Request& request) const;
  void AddWork(uint64_t sequence, Placed placed);
  void Heed(const std::vector<Event>& events, size_t begin);
  void Finished(uint64_t sequence);

  const SchedulerOptions options_;
  std::vector<std::unique_ptr<Scheduler>> ranks_;
  std::vector<int64_t> work_;                    // by rank
  std::unordered_map<uint64_t, Placed> placed_;  // by sequence
  std::deque<std::vector<Part>> flight_;         // of the plans under way, oldest first
  uint64_t number_ = 0;                          // of the newest plan
  step::StepPlan part_;                          // scratch
};

}  // namespace thalweg::sched
