// A scheduler before a device of hashes, and everything that came out; for tests.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>

#include "sched/layered_model.h"
#include "sched/scheduler.h"

namespace thalweg::sched {

inline SchedulerOptions Options() {
  SchedulerOptions o;
  o.max_sequences = 8;
  o.max_rows = 256;
  o.context_tokens = 4096;
  o.blocks = 512;
  o.checkpoints = 64;
  o.reach = {.window = 16, .encoder_layers = 3, .window_layers = 6};
  return o;
}

// Token i of a prompt is a function of i, and from `own_from` on of `own` too.
inline Request MakeRequest(uint64_t number, int64_t tokens, int64_t max_tokens,
                           int64_t own_from = 0, int32_t own = 0) {
  Request r = {.sequence = number, .max_tokens = max_tokens};
  for (int64_t i = 0; i < tokens; ++i) {
    r.prompt.push_back(static_cast<int32_t>(i % 37) + (i >= own_from ? 40 + own : 0));
  }
  return r;
}

struct Outcome {
  std::vector<int32_t> tokens;
  std::optional<Finish> finish;
  Status status;
  int64_t cached_tokens = -1;  // at its first admission
  int64_t first_plan = 0;      // that had rows of it
  int preempted = 0;
};

// A scheduler, a device, and everything that came out.
class Bench {
 public:
  explicit Bench(const SchedulerOptions& options)
      : options_(options),
        scheduler(options),
        device(options.reach, options.blocks, options.checkpoints) {}

  void Submit(const Request& request) {
    const Status status = scheduler.Submit(request);
    ASSERT_TRUE(status.ok()) << status.ToString();
    requests_[request.sequence] = request;
  }

  // Plans one step; false when there is none.
  bool Plan(bool fail = false) {
    if (!scheduler.NextPlan(&plan)) return false;
    for (const step::SequenceRows& r : plan.rows) {
      Outcome& outcome = outcomes[r.sequence];
      if (outcome.first_plan == 0) outcome.first_plan = static_cast<int64_t>(plan.number);
    }
    results.push_back(device.Execute(plan, fail));
    Audit();
    return true;
  }
  bool Advance() {
    if (results.empty()) return false;
    std::vector<Event> events;
    scheduler.Advance(results.front(), &events);
    for (const Event& event : events) Take(event);
    results.pop_front();
    Audit();
    return true;
  }
  void TakeEvents() {
    std::vector<Event> events;
    scheduler.TakeEvents(&events);
    for (const Event& event : events) Take(event);
  }
  // One plan and one result, as far ahead as the options allow.
  bool Step() {
    while (Plan()) {
    }
    return Advance();
  }
  void Run(int64_t steps = 1 << 20) {
    while (steps-- > 0 && Step()) {
    }
    TakeEvents();
  }
  void ExpectNaive() {
    for (const auto& [number, outcome] : outcomes) {
      const Request& r = requests_[number];
      EXPECT_EQ(outcome.tokens,
                NaiveTokens(options_.reach, r.prompt, r.decoder_from, r.sampling.seed,
                            static_cast<int64_t>(outcome.tokens.size())))
          << number;
    }
  }
  int64_t RowsOf(uint64_t sequence) const {
    for (const step::SequenceRows& r : plan.rows) {
      if (r.sequence == sequence) return r.count;
    }
    return 0;
  }

  void Audit() {
    const Status status = scheduler.Audit();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void Take(const Event& event) {
    Outcome& o = outcomes[event.sequence];
    EXPECT_FALSE(o.finish.has_value()) << "an event behind the end";
    switch (event.kind) {
      case Event::Kind::kAdmitted:
        if (o.cached_tokens < 0) o.cached_tokens = event.cached_tokens;
        break;
      case Event::Kind::kToken: o.tokens.push_back(event.token->token); break;
      case Event::Kind::kPreempted: ++o.preempted; break;
      case Event::Kind::kFinished:
        o.finish = event.finish;
        o.status = event.status;
        break;
    }
  }

  SchedulerOptions options_;
  Scheduler scheduler;
  Device device;
  step::StepPlan plan;
  std::deque<step::StepResult> results;
  std::map<uint64_t, Outcome> outcomes;
  std::map<uint64_t, Request> requests_;
};

}  // namespace thalweg::sched
