#include "tools/bench/rank_validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

#include "engine/rank_model.h"
#include "tools/bench/clock.h"
#include "tools/bench/rank_costs.h"
#include "tools/bench/rank_links.h"
#include "tools/bench/rank_steps.h"
#include "tools/bench/shapes.h"
#include "tools/bench/trace.h"

namespace thalweg::tools::bench {
namespace {

using base::Json;
using engine::EngineOptions;

constexpr int64_t kMostSequences = 512;  // of a rank

// Ranks of one thread each, experts placed by the counts in a file, where it is there.
EngineOptions OptionsOf(const EngineOptions& base, int64_t ranks, const std::string& counts) {
  EngineOptions options = base;
  options.ranks = ranks;
  options.threads = static_cast<int>(ranks);
  options.rebalance_window = 0;
  options.expert_spare = 0;
  options.expert_placement.clear();
  options.expert_counts = counts;
  return options;
}

// One case, and what its rounds brought.
struct CaseRun {
  RankCase of;
  std::unique_ptr<CountsFile> counts;
  std::vector<double> us = {}, busy_us = {}, turns_ms = {};
};

// The cases of one number of ranks, with the costs and the link that predict them.
struct Group {
  int64_t ranks = 1;
  std::vector<CaseRun> runs = {};
  std::unique_ptr<RankCosts> costs = {};
  LinkMeasurement link{1};
};

class Validator {
 public:
  Validator(const EngineOptions& base, const ValidationLoad& load) : base_(base), load_(load) {}

  Result<Validation> Run() {
    TW_ASSIGN(const auto checkpoint, OpenForSteps(base_));
    TW_ASSIGN(const kernels::Ops* ops, engine::FindOps(base_));
    OpTrace trace(*ops, checkpoint.config().vocab_size);
    MakeGroups();
    for (Group& group : groups_) TW_TRY(Prepare(checkpoint, &trace, &group));
    for (int64_t round = 0; round < load_.repeats; ++round)
      for (Group& group : groups_) TW_TRY(Round(&group));
    Validation all{.context = Context()};
    for (const Group& group : groups_) TW_TRY(Judge(checkpoint.config(), group, &all));
    return all;
  }

 private:
  int64_t Context() const { return load_.prompt + load_.tokens / 2; }

  void MakeGroups() {
    for (const RankCase& one : load_.cases) {
      auto group = std::find_if(groups_.begin(), groups_.end(),
                                [&](const Group& g) { return g.ranks == one.ranks; });
      if (group == groups_.end()) {
        groups_.push_back(
            {.ranks = one.ranks, .link = LinkMeasurement(static_cast<int>(one.ranks))});
        group = std::prev(groups_.end());
      }
      group->runs.push_back({one, std::make_unique<CountsFile>()});
    }
  }

  // The first steps of a case count where rows go; several ranks are placed by that in the others.
  Status Prepare(const checkpoint::Checkpoint& checkpoint, OpTrace* trace, Group* group) {
    std::vector<int64_t> batches;
    for (const CaseRun& run : group->runs) {
      batches.push_back(run.of.batch);
      TW_TRY(Steps(run, run.counts->path()).status());
    }
    TW_ASSIGN(group->costs, RankCosts::Make(base_, checkpoint, trace, group->ranks,
                                            CostsAround(batches, Context())));
    return {};
  }

  Result<RankSteps> Steps(const CaseRun& run, const std::string& counts) const {
    return RunRankSteps(
        OptionsOf(base_, run.of.ranks, counts),
        {.sequences = run.of.ranks * run.of.batch, .prompt = load_.prompt, .tokens = load_.tokens});
  }

  // The cases of a group have their turns between those of the costs.
  Status Round(Group* group) {
    size_t next = 0;
    return group->costs->Round([&]() -> Status {
      group->link.Round();
      return Turn(&group->runs[next++ % group->runs.size()]);
    });
  }

  Status Turn(CaseRun* run) {
    TW_ASSIGN(const RankSteps steps, Steps(*run, run->of.ranks > 1 ? run->counts->path() : ""));
    run->turns_ms.push_back(MedianUs(steps.steps) / 1e3);
    for (const TimedStep& step : steps.steps) {
      run->us.push_back(step.us);
      run->busy_us.push_back(step.busy_us);
    }
    return {};
  }

  Status Judge(const checkpoint::Config& config, const Group& group, Validation* all) const {
    TW_ASSIGN(const sim::Costs costs, group.costs->Costs());
    for (const CaseRun& run : group.runs) {
      TW_ASSIGN(const parallel::ExpertCounts counts, run.counts->Read());
      TW_ASSIGN(const sim::Prediction predicted,
                PredictDecode(config, costs, group.link.Link(), counts,
                              {.ranks = group.ranks, .batch = run.of.batch, .context = Context()}));
      all->figures.push_back({.of = run.of,
                              .predicted = predicted,
                              .link = group.link.Link(),
                              .measured_ms = MiddleOf(run.us) / 1e3,
                              .busy_ms = group.ranks > 1 ? 0 : MiddleOf(run.busy_us) / 1e3,
                              .turns_ms = run.turns_ms});
    }
    return {};
  }

  const EngineOptions& base_;
  const ValidationLoad& load_;
  std::vector<Group> groups_ = {};
};

// And the prediction over it.
std::string BusyText(const ValidationFigure& f) {
  if (f.busy_ms == 0) return "";
  return fmt::format("{:.3f} ({:.3f})", f.busy_ms, f.PredictedMs() / f.busy_ms);
}

bool Good(const ValidationFigure& f) { return std::abs(f.Ratio() - 1) <= kPredictionBar; }

std::string Row(const ValidationFigure& f) {
  const sim::Prediction& p = f.predicted;
  return fmt::format(
      "{:>6} {:>7} {:>13.3f} {:>12.3f} {:>8.3f} {:>8.3f} {:>8.3f} {:>8.3f} {:>12.3f} {:>16} "
      "{:>+7.1f} %  {}\n",
      f.of.ranks, f.of.batch, f.PredictedMs(), p.dense_us / 1e3, p.experts_us / 1e3,
      p.skew_us / 1e3, p.link_us / 1e3, p.other_us / 1e3, f.measured_ms, BusyText(f),
      100 * (f.Ratio() - 1), Good(f) ? "met" : "MISSED");
}

Result<ValidationLoad> LoadFrom(const base::OptionValues& values, int64_t ranks) {
  std::vector<int64_t> batches = {1, 2, 4, 8, 16, 32, 64};
  if (values.Has("batch")) {
    TW_ASSIGN(batches, ParseCounts(values.Text("batch"), "batch", kMostSequences));
  }
  ValidationLoad load;
  for (const int64_t n : {int64_t{1}, std::max<int64_t>(2, ranks)})
    for (const int64_t batch : batches) load.cases.push_back({n, batch});
  load.prompt = values.OptionalInteger("prompt").value_or(load.prompt);
  load.repeats = values.Integer("repeats");
  return load;
}

}  // namespace

Result<Validation> Validate(const EngineOptions& options, const ValidationLoad& load) {
  return Validator(options, load).Run();
}

std::string ToTable(const Validation& v) {
  std::string table = fmt::format(
      "steps behind {} tokens, ms\n{:>6} {:>7} {:>13} {:>12} {:>8} {:>8} {:>8} {:>8} {:>12} {:>16} "
      "{:>9}\n",
      v.context, "ranks", "a rank", "predicted =", "dense +", "experts", "skew", "links", "other",
      "measured", "processor", "error");
  for (const ValidationFigure& f : v.figures) table += Row(f);
  return table + fmt::format("within {:.0f} %: {} of {}\n", 100 * kPredictionBar,
                             std::count_if(v.figures.begin(), v.figures.end(), Good),
                             v.figures.size());
}

Json ToJson(const Validation& v) {
  Json json = {{"context", v.context}, {"bar", kPredictionBar}, {"figures", Json::array()}};
  for (const ValidationFigure& f : v.figures) {
    const sim::Prediction& p = f.predicted;
    json["figures"].push_back({{"ranks", f.of.ranks},
                               {"batch_of_rank", f.of.batch},
                               {"predicted_ms", f.PredictedMs()},
                               {"measured_ms", f.measured_ms},
                               {"turns_ms", f.turns_ms},
                               {"processor_ms", f.busy_ms},
                               {"ratio", f.Ratio()},
                               {"dense_ms", p.dense_us / 1e3},
                               {"experts_ms", p.experts_us / 1e3},
                               {"skew_ms", p.skew_us / 1e3},
                               {"link_ms", p.link_us / 1e3},
                               {"other_ms", p.other_us / 1e3},
                               {"imbalance", p.imbalance},
                               {"ops_us", p.ops},
                               {"link_latency_us", f.link.latency_us},
                               {"link_gb_per_s", f.link.gb_per_s}});
  }
  return json;
}

Status ValidateRanksCommand(const base::OptionValues& values) {
  TW_ASSIGN(const EngineOptions base, EngineOptions::From(values));
  TW_ASSIGN(const ValidationLoad load, LoadFrom(values, base.ranks));
  TW_ASSIGN(const Validation validation, Validate(base, load));
  fmt::print("{}\n", values.Flag("json") ? ToJson(validation).dump(2) : ToTable(validation));
  return {};
}

}  // namespace thalweg::tools::bench
