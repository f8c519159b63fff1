// Several ranks behind one scheduler bring the tokens that each request has alone, whatever rank it
// lives on; requests go where they are done first, at once, and to a cached prefix as long as that
// is not the longer way; what fails on one rank touches no other; every part of a plan is a plan.
#include "sched/ranked.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "sched/test_bench.h"
#include "step/codec.h"
#include "step/parts.h"

namespace thalweg::sched {
namespace {

SchedulerOptions RankOptions(int64_t ranks) {
  SchedulerOptions o = Options();
  o.ranks = ranks;
  return o;
}

// Ranks of hashes, each with its part of every plan.
class Ranks {
 public:
  explicit Ranks(const SchedulerOptions& options) : options_(options), scheduler(options) {
    for (int64_t r = 0; r < options.ranks; ++r)
      devices_.emplace_back(options.reach, options.blocks, options.checkpoints);
  }

  void Submit(const Request& request) {
    ASSERT_TRUE(scheduler.Submit(request).ok());
    requests_[request.sequence] = request;
  }

  // `failing`: the rank whose step fails; -1: none.
  bool Step(int64_t failing = -1) {
    step::StepPlan plan;
    if (!scheduler.NextPlan(&plan)) return false;
    Note(plan);
    step::StepResult result;
    result.number = plan.number;
    for (int64_t r = 0; r < options_.ranks; ++r) RunPart(plan, r, r == failing, &result);
    std::vector<Event> events;
    scheduler.Advance(result, &events);
    scheduler.TakeEvents(&events);
    for (const Event& event : events) Take(event);
    EXPECT_TRUE(scheduler.Audit().ok());
    return true;
  }
  void Run() {
    while (Step()) {
    }
  }

  void ExpectNaive(uint64_t sequence) {
    const Request& r = requests_.at(sequence);
    const std::vector<int32_t>& tokens = tokens_[sequence];
    EXPECT_EQ(tokens, NaiveTokens(options_.reach, r.prompt, r.decoder_from, r.sampling.seed,
                                  static_cast<int64_t>(tokens.size())))
        << sequence;
  }

  SchedulerOptions options_;
  RankedScheduler scheduler;
  std::map<uint64_t, int64_t> rank_of;
  std::map<uint64_t, Finish> finishes;
  std::map<uint64_t, int64_t> cached;

 private:
  void Note(const step::StepPlan& plan) {
    for (const step::SequenceRows& rows : plan.rows) {
      const int64_t rank = rows.slot / options_.max_sequences;
      EXPECT_EQ(rank_of.try_emplace(rows.sequence, rank).first->second, rank) << "it moved";
    }
  }
  void RunPart(const step::StepPlan& plan, int64_t rank, bool fail, step::StepResult* whole) {
    const auto slots = static_cast<int32_t>(options_.max_sequences);
    const auto first = static_cast<int32_t>(rank) * slots;
    step::StepPlan part;
    step::TakePart(plan, first, slots, &part);
    const Status checked = step::CheckPlan(part);
    EXPECT_TRUE(checked.ok()) << checked.ToString();
    step::StepResult result = devices_[static_cast<size_t>(rank)].Execute(part, fail);
    EXPECT_TRUE(step::CheckResult(part, result).ok());
    step::AppendPartResult(part, std::move(result), first, whole);
  }
  void Take(const Event& event) {
    if (event.kind == Event::Kind::kToken) tokens_[event.sequence].push_back(event.token->token);
    if (event.kind == Event::Kind::kFinished) finishes[event.sequence] = event.finish;
    if (event.kind == Event::Kind::kAdmitted) cached[event.sequence] = event.cached_tokens;
  }

  std::vector<Device> devices_;
  std::map<uint64_t, Request> requests_;
  std::map<uint64_t, std::vector<int32_t>> tokens_;
};

TEST(RankedScheduler, TokensAreThoseOfEachAlone) {
  for (const int64_t ranks : {1, 2, 3, 4, 8}) {
    for (const int64_t depth : {0, 1}) {
      SchedulerOptions options = RankOptions(ranks);
      options.overlap_depth = depth;
      Ranks bench(options);
      for (uint64_t i = 1; i <= 20; ++i)
        bench.Submit(MakeRequest(i, 30 + 17 * static_cast<int64_t>(i), 12, 130,
                                 static_cast<int32_t>(i % 5)));
      bench.Run();
      EXPECT_TRUE(bench.scheduler.idle());
      EXPECT_EQ(bench.finishes.size(), 20u);
      for (uint64_t i = 1; i <= 20; ++i) bench.ExpectNaive(i);
      for (int64_t r = 0; r < ranks; ++r) EXPECT_EQ(bench.scheduler.WorkOf(r), 0);
    }
  }
}

TEST(RankedScheduler, RequestsThatComeTogetherAreSpread) {
  Ranks bench(RankOptions(4));
  for (uint64_t i = 1; i <= 8; ++i)
    bench.Submit(MakeRequest(i, 100, 10, 0, static_cast<int32_t>(i)));
  bench.Step();
  std::map<int64_t, int> on_rank;
  for (const auto& [sequence, rank] : bench.rank_of) ++on_rank[rank];
  for (int64_t r = 0; r < 4; ++r) EXPECT_EQ(on_rank[r], 2) << r;
}

TEST(RankedScheduler, ALongRequestKeepsOthersAway) {
  Ranks bench(RankOptions(2));
  bench.Submit(MakeRequest(1, 1000, 10));
  for (uint64_t i = 2; i <= 5; ++i)
    bench.Submit(MakeRequest(i, 100, 10, 0, static_cast<int32_t>(i)));
  bench.Run();
  for (uint64_t i = 2; i <= 5; ++i) EXPECT_NE(bench.rank_of[i], bench.rank_of[1]);
}

TEST(RankedScheduler, APrefixIsFollowedUntilItIsTheLongerWay) {
  Ranks bench(RankOptions(2));
  bench.Submit(MakeRequest(1, 10, 10));
  bench.Submit(MakeRequest(2, 400, 10, 400));
  bench.Run();
  bench.Submit(MakeRequest(3, 420, 10, 400, 1));
  bench.Run();
  EXPECT_EQ(bench.rank_of[3], bench.rank_of[2]);
  EXPECT_GT(bench.cached[3], 0);
  bench.Submit(MakeRequest(4, 2000, 10, 400, 2));
  bench.Submit(MakeRequest(5, 420, 10, 400, 3));
  bench.Run();
  EXPECT_EQ(bench.rank_of[4], bench.rank_of[2]);
  EXPECT_NE(bench.rank_of[5], bench.rank_of[2]);
  bench.ExpectNaive(5);
}

TEST(RankedScheduler, AStepThatFailsOnOneRankEndsWhatRanThere) {
  Ranks bench(RankOptions(3));
  for (uint64_t i = 1; i <= 6; ++i)
    bench.Submit(MakeRequest(i, 50, 10, 0, static_cast<int32_t>(i)));
  bench.Step(1);
  bench.Run();
  for (uint64_t i = 1; i <= 6; ++i) {
    const bool lost = bench.rank_of[i] == 1;
    EXPECT_EQ(bench.finishes[i], lost ? Finish::kError : Finish::kLength);
    if (!lost) bench.ExpectNaive(i);
  }
}

TEST(RankedScheduler, WhatIsOfTheFirstProcessStaysThere) {
  SchedulerOptions options = RankOptions(3);
  options.local_only_on_first = true;
  Ranks bench(options);
  for (uint64_t i = 1; i <= 6; ++i) {
    Request request = MakeRequest(i, 50, 4, 0, static_cast<int32_t>(i));
    request.sampling.constrained = i % 3 == 0;
    if (i % 3 == 1) request.sampling.logits_processor = "mine";
    bench.Submit(request);
  }
  bench.Run();
  for (const uint64_t i : {1, 3, 4, 6}) EXPECT_EQ(bench.rank_of[i], 0) << i;
  for (const uint64_t i : {2, 5}) EXPECT_NE(bench.rank_of[i], 0) << i;
}

TEST(RankedScheduler, ErrorsAreThoseOfOneRank) {
  RankedScheduler scheduler(RankOptions(2));
  ASSERT_TRUE(scheduler.Submit(MakeRequest(1, 10, 4)).ok());
  EXPECT_EQ(scheduler.Submit(MakeRequest(1, 10, 4)).code(), base::Code::kInvalidArgument);
  EXPECT_EQ(scheduler.Submit(MakeRequest(2, 0, 4)).code(), base::Code::kInvalidArgument);
  EXPECT_EQ(scheduler.Submit(MakeRequest(3, 5000, 4)).code(), base::Code::kOutOfRange);
  scheduler.Stop(2);
  scheduler.Stop(1);
  std::vector<Event> events;
  scheduler.TakeEvents(&events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].finish, Finish::kCancelled);
  EXPECT_TRUE(scheduler.idle());
}

}  // namespace
}  // namespace thalweg::sched
