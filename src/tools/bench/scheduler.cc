#include "tools/bench/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>

#include "base/math.h"
#include "base/rng.h"
#include "engine/control_plane.h"
#include "sched/scheduler.h"
#include "tools/bench/clock.h"
#include "tools/bench/report.h"

namespace thalweg::tools::bench {
namespace {

constexpr int64_t kBlock = 64;
constexpr int64_t kMaxRows = 16384;
constexpr uint32_t kVocab = 129280;

sched::SchedulerOptions OptionsFor(int64_t running, int64_t context, int64_t output) {
  sched::SchedulerOptions o;
  o.max_sequences = running;
  o.max_rows = kMaxRows;
  o.context_tokens = context + output + kBlock;
  o.blocks = running * base::CeilDiv(o.context_tokens, kBlock);
  o.checkpoints = running;
  o.reach = {.window = 128, .encoder_layers = 20, .window_layers = 40, .draft = true};
  o.max_prefills = running;
  return o;
}

uint32_t Hash(uint64_t sequence, uint64_t position) {
  return base::Philox4x32({static_cast<uint32_t>(position), 0, 0, 0},
                          base::PhiloxKeyOf(sequence))[0];
}

// A device of hashes in front of the scheduler, one plan ahead.
class Device {
 public:
  Device(int64_t running, int64_t context, int64_t steps)
      : running_(running),
        output_(2 * steps + context),
        scheduler_(OptionsFor(running, context, output_)) {}

  Status Submit(int64_t context) {
    for (int64_t i = 0; i < running_; ++i) {
      const auto number = static_cast<uint64_t>(i + 1);
      sched::Request r = {.sequence = number, .max_tokens = output_};
      for (int64_t t = 0; t < context; ++t)
        r.prompt.push_back(static_cast<int32_t>(Hash(number, static_cast<uint64_t>(t)) % kVocab));
      TW_TRY(scheduler_.Submit(std::move(r)));
    }
    return {};
  }

  // Seconds inside the scheduler for one plan and one result. Whether all sequences decoded in it.
  double Step(bool* all_decode) {
    double seconds = 0;
    const auto begin = std::chrono::steady_clock::now();
    const bool planned = scheduler_.NextPlan(&plan_);
    seconds += SecondsSince(begin);
    *all_decode = planned && static_cast<int64_t>(plan_.rows.size()) == running_ &&
                  plan_.RowCount() == running_;
    if (planned) results_.push_back(Answer(plan_));
    if (results_.size() < 2) return seconds;
    events_.clear();
    const auto advance = std::chrono::steady_clock::now();
    scheduler_.Advance(results_.front(), &events_);
    seconds += SecondsSince(advance);
    results_.pop_front();
    return seconds;
  }

 private:
  static step::StepResult Answer(const step::StepPlan& plan) {
    step::StepResult result;
    result.number = plan.number;
    for (const step::SequenceRows& r : plan.rows) {
      const auto position = static_cast<uint64_t>(r.start + r.count);
      result.sequences.push_back({.slot = r.slot, .sequence = r.sequence});
      const auto token = static_cast<int32_t>(Hash(r.sequence, position) % kVocab);
      if (r.sample) result.Append(&result.sequences.back(), {.token = token});
    }
    return result;
  }

  int64_t running_;
  int64_t output_;
  sched::Scheduler scheduler_;
  step::StepPlan plan_;  // its memory serves again
  std::deque<step::StepResult> results_;
  std::vector<sched::Event> events_;
};

}  // namespace

Result<SchedulerFigure> BenchScheduler(int64_t running, int64_t context, int64_t steps) {
  TW_TRY(sched::Scheduler::Check(OptionsFor(running, context, 2 * steps + context)));
  Device device(running, context, steps);
  TW_TRY(device.Submit(context));
  std::vector<double> us;
  const int64_t most = 4 * steps + running * base::CeilDiv(context, kBlock);
  for (int64_t i = 0; i < most && static_cast<int64_t>(us.size()) < steps; ++i) {
    bool all_decode = false;
    const double seconds = device.Step(&all_decode);
    if (all_decode) us.push_back(1e6 * seconds);
  }
  if (static_cast<int64_t>(us.size()) < steps) {
    return base::Internal(
        fmt::format("only {} steps of {} decoded all {} sequences", us.size(), most, running));
  }
  std::sort(us.begin(), us.end());
  const double median = Percentile(us, 0.5);
  TW_ASSIGN(
      const engine::ControlPlaneFigures whole,
      engine::MeasureControlPlane(
          {.sequences = running, .output_tokens = steps, .step_seconds = kDeviceStepSeconds}));
  return SchedulerFigure{
      .running = running,
      .steps = steps,
      .us_per_step_median = median,
      .us_per_step_mean = std::accumulate(us.begin(), us.end(), 0.0) / static_cast<double>(steps),
      .us_per_step_p99 = Percentile(us, 0.99),
      .ns_per_sequence = 1e3 * median / static_cast<double>(running),
      .device_busy = whole.busy_share};
}

base::Json ToJson(const std::vector<SchedulerFigure>& figures) {
  base::Json json = base::Json::array();
  for (const SchedulerFigure& f : figures) {
    json.push_back({{"running", f.running},
                    {"steps", f.steps},
                    {"us_per_step_median", f.us_per_step_median},
                    {"us_per_step_mean", f.us_per_step_mean},
                    {"us_per_step_p99", f.us_per_step_p99},
                    {"ns_per_sequence", f.ns_per_sequence},
                    {"device_busy", f.device_busy}});
  }
  return json;
}

std::string ToTable(const std::vector<SchedulerFigure>& figures) {
  std::string table = fmt::format("{:>8} {:>12} {:>10} {:>10} {:>16} {:>18}\n", "running",
                                  "us a step", "mean", "p99", "ns a sequence", "busy, 5 ms steps");
  for (const SchedulerFigure& f : figures) {
    table += fmt::format("{:>8} {:>12.1f} {:>10.1f} {:>10.1f} {:>16.1f} {:>18.4f}\n", f.running,
                         f.us_per_step_median, f.us_per_step_mean, f.us_per_step_p99,
                         f.ns_per_sequence, f.device_busy);
  }
  return table;
}

}  // namespace thalweg::tools::bench
