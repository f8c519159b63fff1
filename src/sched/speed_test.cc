// The control plane's own time for a step (NextPlan and Advance), with running decode sequences of
// 1000 tokens. Prints figures and proves only that a step at most doubles with the requests, with
// room for a busy machine. The assertion is about ratios: absolute times belong to the machine.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "sched/scheduler.h"

namespace thalweg::sched {
namespace {

void Answer(const step::StepPlan& plan, step::StepResult* result) {
  result->number = plan.number;
  result->Clear();
  result->sequences.resize(plan.rows.size());
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    step::SequenceResult& r = result->sequences[i];
    r.slot = plan.rows[i].slot;
    r.sequence = plan.rows[i].sequence;
    const auto token = static_cast<int32_t>((plan.number * 31 + i) % 1000);
    if (plan.rows[i].sample) result->Append(&r, {.token = token});
  }
}

// Median and mean microseconds of a step at `sequences` that decode.
struct Times {
  double median_us = 0, mean_us = 0;
};

Times MeasureDecode(int64_t sequences) {
  SchedulerOptions o;
  o.max_sequences = sequences;
  o.max_rows = 4096;
  o.context_tokens = 100000;
  o.blocks = sequences * 40;
  o.checkpoints = sequences;
  o.reach = {.window = 128, .encoder_layers = 20, .window_layers = 40, .draft = true};
  o.max_prefills = sequences;
  Scheduler scheduler(o);
  for (int64_t i = 0; i < sequences; ++i) {
    Request r = {.sequence = static_cast<uint64_t>(i + 1), .max_tokens = 1500};
    r.prompt.assign(1000, static_cast<int32_t>(i));
    EXPECT_TRUE(scheduler.Submit(std::move(r)).ok());
  }
  step::StepPlan plan;
  step::StepResult result;
  std::vector<Event> events;
  std::vector<double> times;
  for (int step = 0; step < 1700; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    const bool planned = scheduler.NextPlan(&plan);
    const auto planned_at = std::chrono::steady_clock::now();
    if (!planned) break;
    Answer(plan, &result);
    events.clear();
    const auto answered_at = std::chrono::steady_clock::now();
    scheduler.Advance(result, &events);
    const auto end = std::chrono::steady_clock::now();
    const std::chrono::duration<double, std::micro> us = (planned_at - begin) + (end - answered_at);
    const bool all_decode = plan.starts.empty() && !plan.rows.back().known_tokens;
    if (all_decode && static_cast<int64_t>(plan.rows.size()) == sequences) {
      times.push_back(us.count());
    }
  }
  EXPECT_GT(times.size(), 1000u);
  double sum = 0;
  for (const double t : times) sum += t;
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], sum / static_cast<double>(times.size())};
}

TEST(Speed, AStepIsLinearInTheRequests) {
  const Times small = MeasureDecode(128), large = MeasureDecode(512);
  fmt::print("128 requests: {:.1f} us median, {:.1f} mean; 512: {:.1f} median, {:.1f} mean\n",
             small.median_us, small.mean_us, large.median_us, large.mean_us);
  EXPECT_LT(large.median_us, 12 * small.median_us);
}

}  // namespace
}  // namespace thalweg::sched
