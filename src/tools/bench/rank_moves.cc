#include "tools/bench/rank_moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace thalweg::tools::bench {
namespace {

using base::Json;
using engine::EngineOptions;

constexpr int64_t kStepBytes = 256 << 10;

// In turns, so that a machine that is busy for a while is so for both.
struct Pairs {
  std::vector<RankSteps> still, moving;

  Status Run(const EngineOptions& still_options, const EngineOptions& moving_options,
             const StepsLoad& load, int64_t repeats) {
    for (int64_t i = 0; i < repeats; ++i) {
      TW_ASSIGN(RankSteps one, RunRankSteps(still_options, load));
      still.push_back(std::move(one));
      TW_ASSIGN(RankSteps other, RunRankSteps(moving_options, load));
      moving.push_back(std::move(other));
    }
    return {};
  }

  bool SameSchedule() const {
    const auto worked = [](const TimedStep& s) { return s.worked_us > 0; };
    for (const RankSteps& run : moving)
      for (size_t i = 0; i < run.steps.size(); ++i)
        if (worked(run.steps[i]) != worked(moving.front().steps[i])) return false;
    return true;
  }
  bool SameTokens() const {
    for (const std::vector<RankSteps>* runs : {&still, &moving})
      for (const RankSteps& run : *runs)
        if (run.tokens != still.front().tokens) return false;
    return true;
  }
};

double Us(const TimedStep& step) { return step.us; }

}  // namespace

const MovedStep* MovesReport::Longest() const {
  if (moved.empty()) return nullptr;
  return &*std::max_element(moved.begin(), moved.end(),
                            [](const MovedStep& a, const MovedStep& b) { return a.us < b.us; });
}

double MovesReport::MeanRatio() const {
  double sum = 0;
  for (const MovedStep& step : moved) sum += step.us / step.still_us;
  return moved.empty() ? 1 : sum / static_cast<double>(moved.size());
}

Result<MovesReport> MeasureMoves(const EngineOptions& options, const StepsLoad& load,
                                 int64_t repeats) {
  EngineOptions moving = options, still = options;
  if (moving.rebalance_bytes == 0) moving.rebalance_bytes = kStepBytes;
  still.rebalance_window = 0;
  Pairs pairs;
  TW_TRY(pairs.Run(still, moving, load, repeats));
  const std::vector<TimedStep> base = LeastOfRuns(pairs.still), with = LeastOfRuns(pairs.moving);
  MovesReport report{.repeats = repeats,
                     .step_bytes = moving.rebalance_bytes,
                     .steps = static_cast<int64_t>(base.size()),
                     .median_us = MedianUs(base),
                     .longest_still_us = Us(*std::max_element(
                         base.begin(), base.end(),
                         [](const TimedStep& a, const TimedStep& b) { return a.us < b.us; })),
                     .same_schedule = pairs.SameSchedule(),
                     .same_tokens = pairs.SameTokens(),
                     .experts = pairs.moving.back().experts};
  for (size_t i = 0; i < with.size(); ++i)
    if (with[i].worked_us > 0)
      report.moved.push_back({static_cast<int64_t>(i), with[i].us, with[i].worked_us, base[i].us});
  return report;
}

std::string ToTable(const MovesReport& r) {
  std::string table = fmt::format(
      "moves: {} windows, {} layers switched, {} experts moved, {} bytes before a step at most; {} "
      "of {} steps had something done before them\n",
      r.experts.windows, r.experts.layers_switched, r.experts.experts_moved, r.step_bytes,
      r.moved.size(), r.steps);
  table += fmt::format(
      "least of {} runs each, ms: median without moves {:.3f}, longest without moves {:.3f} "
      "({:.2f} "
      "of the median)\n",
      r.repeats, r.median_us / 1e3, r.longest_still_us / 1e3, r.longest_still_us / r.median_us);
  const MovedStep* longest = r.Longest();
  if (longest != nullptr) {
    table += fmt::format(
        "longest with moves: step {}, {:.3f} ms, {:.3f} of it before the step; {:.2f} of the "
        "median "
        "(at most {}: {}), {:.2f} of the same step without moves; mean of those steps {:.2f}\n",
        longest->step, longest->us / 1e3, longest->worked_us / 1e3, longest->us / r.median_us,
        kLongestStepBar, longest->us <= kLongestStepBar * r.median_us ? "met" : "MISSED",
        longest->us / longest->still_us, r.MeanRatio());
  }
  if (!r.same_schedule) table += "moves came before other steps from run to run\n";
  return table +
         fmt::format("tokens with and without moves: {}\n", r.same_tokens ? "the same" : "DIFFER");
}

Json ToJson(const MovesReport& r) {
  Json json = {{"repeats", r.repeats},
               {"step_bytes", r.step_bytes},
               {"steps", r.steps},
               {"median_us", r.median_us},
               {"longest_still_us", r.longest_still_us},
               {"windows", r.experts.windows},
               {"layers_switched", r.experts.layers_switched},
               {"experts_moved", r.experts.experts_moved},
               {"same_schedule", r.same_schedule},
               {"same_tokens", r.same_tokens},
               {"mean_ratio", r.MeanRatio()},
               {"moved", Json::array()}};
  for (const MovedStep& step : r.moved)
    json["moved"].push_back({{"step", step.step},
                             {"us", step.us},
                             {"worked_us", step.worked_us},
                             {"still_us", step.still_us}});
  if (const MovedStep* longest = r.Longest())
    json["longest_over_median"] = longest->us / r.median_us;
  return json;
}

}  // namespace thalweg::tools::bench
