// Whatever the chunk size, overlap, memory, reuse, preemption and cancellation: every request gets
// the tokens that it gets alone, and what must hold holds after every call.
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "base/rng.h"
#include "sched/layered_model.h"
#include "sched/scheduler.h"
#include "step/codec.h"

namespace thalweg::sched {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : key_(base::PhiloxKeyOf(seed)) {}
  int64_t Below(int64_t n) {
    const auto word = base::Philox4x32({count_++, 0, 0, 0}, key_)[0];
    return static_cast<int64_t>(word % static_cast<uint64_t>(n));
  }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  int64_t Of(std::initializer_list<int64_t> values) {
    return values.begin()[Below(static_cast<int64_t>(values.size()))];
  }

 private:
  base::PhiloxKey key_;
  uint32_t count_ = 0;
};

struct Expected {
  Request request;
  std::vector<int32_t> tokens;  // so far
  bool stopped = false;
};

SchedulerOptions RandomOptions(Random* r) {
  SchedulerOptions o;
  o.max_sequences = 1 + r->Below(6);
  o.max_rows = r->Of({1, 3, 7, 64, 200, 512});
  o.context_tokens = 420;
  o.blocks = 7 + r->Below(20);
  o.checkpoints = r->Of({0, 1, 3, 20});
  o.checkpoint_interval_tokens = r->Of({64, 128, 512});
  o.prefix_reuse = !r->OneIn(5);
  o.reach = {.window = r->Of({1, 4, 16, 32}),
             .encoder_layers = 3,
             .window_layers = 6,
             .draft = r->OneIn(2)};
  // With windows of one row even a bounded replay is exact.
  if (o.reach.window == 1) o.exactness = PrefixExactness::kBounded;
  o.admission_growth = r->OneIn(2) ? 1 : 0.1;
  o.max_prefills = 1 + r->Below(4);
  o.ageing_steps = r->Of({1, 16, 256});
  o.overlap_depth = r->Below(4);
  o.draft_tokens = r->OneIn(2) ? 0 : 1 + r->Below(7);
  o.forced_tokens = r->OneIn(2) ? 0 : 1 + r->Below(12);
  o.preempt_every = r->OneIn(2) ? 0 : static_cast<uint64_t>(1 + r->Below(12));
  return o;
}

Request RandomRequest(Random* r, uint64_t number) {
  Request request;
  request.sequence = number;
  // Few beginnings, cut anywhere, so that requests share prefixes of all lengths.
  const int64_t family = r->Below(3), length = 1 + r->Below(r->OneIn(3) ? 400 : 150);
  for (int64_t i = 0; i < length; ++i) {
    request.prompt.push_back(static_cast<int32_t>((i * 7 + family * i) % 40));
  }
  if (r->OneIn(2)) request.prompt.back() += 5;
  request.max_tokens = 1 + r->Below(r->OneIn(4) ? 120 : 12);
  request.sampling.seed = static_cast<uint64_t>(r->Below(3));
  if (r->OneIn(2)) request.sampling.end_tokens = {3};
  request.sampling.constrained = r->OneIn(2);
  if (r->OneIn(20)) request.sampling.prompt_logprobs = 0;
  const bool compact = r->OneIn(2) && request.sampling.prompt_logprobs < 0;
  request.decoder_from = compact ? std::max<int64_t>(0, length - 40) : 0;
  request.priority = static_cast<int>(r->Below(3)) - 1;
  request.salt = r->OneIn(4) ? "other" : "";
  request.may_reuse = !r->OneIn(10);
  return request;
}

class Soak {
 public:
  explicit Soak(uint64_t seed)
      : random_(seed),
        options_(RandomOptions(&random_)),
        scheduler_(options_),
        device_(options_.reach, options_.blocks, options_.checkpoints) {}

  void Run(int64_t calls) {
    for (int64_t i = 0; i < calls && !testing::Test::HasFailure(); ++i) Step(true);
    for (int64_t i = 0; !scheduler_.idle() && !testing::Test::HasFailure(); ++i) {
      ASSERT_LT(i, 1000000);
      Step(false);
    }
    EXPECT_TRUE(live_.empty());
    scheduler_.DropCache();
    EXPECT_EQ(scheduler_.stats().free_blocks, options_.blocks);
    EXPECT_EQ(scheduler_.stats().checkpoints_used, 0);
  }
  uint64_t finished() const { return finished_; }
  SchedulerStats stats() const { return scheduler_.stats(); }

 private:
  void Step(bool submit) {
    if (submit && live_.size() < 20 && random_.OneIn(4)) Submit();
    if (random_.OneIn(60) && !live_.empty()) Stop();
    step::StepPlan plan;
    if (!random_.OneIn(4) && scheduler_.NextPlan(&plan)) {
      Execute(plan);
    } else if (!results_.empty()) {
      std::vector<Event> events;
      if (random_.OneIn(100)) Fail(&results_.front());
      scheduler_.Advance(results_.front(), &events);
      for (const Event& event : events) Take(event);
      results_.pop_front();
    } else {
      std::vector<Event> events;
      scheduler_.TakeEvents(&events);
      for (const Event& event : events) Take(event);
      const bool nothing = !scheduler_.NextPlan(&plan);
      ASSERT_TRUE(!nothing || scheduler_.stats().waiting + scheduler_.stats().running == 0)
          << "stuck: " << scheduler_.stats().waiting << " wait";
      if (!nothing) Execute(plan);
    }
    const Status audit = scheduler_.Audit();
    ASSERT_TRUE(audit.ok()) << audit.ToString();
  }

  // Plans and results travel as bytes.
  void Execute(const step::StepPlan& plan) {
    CheckPlan(plan);
    std::string bytes;
    step::EncodePlan(plan, &bytes);
    step::StepPlan received;
    const Status status = step::DecodePlan(bytes, &received);
    ASSERT_TRUE(status.ok()) << status.ToString();
    step::EncodeResult(device_.Execute(received, random_.OneIn(150)), &bytes);
    results_.emplace_back();
    ASSERT_TRUE(step::DecodeResult(bytes, &results_.back()).ok());
  }

  void Submit() {
    Request request = RandomRequest(&random_, ++number_);
    const Status status = scheduler_.Submit(request);
    if (status.ok()) live_[number_] = {request, {}};
  }
  void Stop() {
    auto it = live_.begin();
    std::advance(it, random_.Below(static_cast<int64_t>(live_.size())));
    it->second.stopped = true;
    scheduler_.Stop(it->first);
  }
  // One sequence of the step alone.
  static void Fail(step::StepResult* result) {
    if (!result->sequences.empty()) result->sequences[0].status = base::Internal("scripted");
  }

  void CheckPlan(const step::StepPlan& plan) {
    EXPECT_LE(plan.RowCount(), options_.max_rows);
    bool prefill = false;
    for (const step::SequenceRows& rows : plan.rows) {
      EXPECT_GT(rows.count, 0);
      prefill |= rows.known_tokens;
      EXPECT_EQ(prefill, rows.known_tokens) << "a decode row behind a prefill";
    }
  }

  void Take(const Event& event) {
    ASSERT_TRUE(live_.contains(event.sequence)) << event.sequence;
    Expected& e = live_[event.sequence];
    if (event.kind == Event::Kind::kToken) {
      EXPECT_FALSE(e.stopped) << "a token after the end";
      e.tokens.push_back(event.token->token);
    }
    if (event.kind != Event::Kind::kFinished) return;
    const Request& r = e.request;
    const auto count = static_cast<int64_t>(e.tokens.size());
    const auto naive =
        NaiveTokens(options_.reach, r.prompt, r.decoder_from, r.sampling.seed, count);
    EXPECT_EQ(e.tokens, naive) << "sequence " << event.sequence;
    const auto prompt = static_cast<int64_t>(r.prompt.size());
    switch (event.finish) {
      case Finish::kLength: EXPECT_EQ(count, r.max_tokens); break;
      case Finish::kContext: EXPECT_EQ(count + prompt, options_.context_tokens); break;
      case Finish::kEndToken: EXPECT_EQ(e.tokens.back(), 3); break;
      default: break;
    }
    live_.erase(event.sequence);
    ++finished_;
  }

  Random random_;
  SchedulerOptions options_;
  Scheduler scheduler_;
  Device device_;
  std::deque<step::StepResult> results_;
  std::map<uint64_t, Expected> live_;
  uint64_t number_ = 0, finished_ = 0;
};

TEST(Soak, TokensAreThoseOfARequestAlone) {
  uint64_t finished = 0, preempted = 0, hits = 0, accepted = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Soak soak(seed);
    soak.Run(1500);
    if (HasFailure()) return;
    finished += soak.finished();
    preempted += soak.stats().preempted;
    hits += soak.stats().hit_tokens;
    accepted += soak.stats().accepted;
  }
  EXPECT_GT(finished, 12000u);
  EXPECT_GT(preempted, 1000u);
  EXPECT_GT(hits, 10000u);
  EXPECT_GT(accepted, 10000u);
}

}  // namespace
}  // namespace thalweg::sched
