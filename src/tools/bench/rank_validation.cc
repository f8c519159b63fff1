#include "tools/bench/rank_validation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tools/bench/rank_links.h"
#include "tools/bench/rank_steps.h"
#include "tools/bench/shapes.h"

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

class Validator {
 public:
  Validator(const EngineOptions& base, const ValidationLoad& load) : base_(base), load_(load) {}

  Result<Validation> Run() {
    TW_ASSIGN(const auto checkpoint, OpenForSteps(base_));
    Validation all{.context = load_.prompt + load_.tokens / 2};
    const CostsOptions costs_at = CostsAround(load_.batches, all.context);
    all.cost_batches = costs_at.batches;
    all.cost_contexts = costs_at.contexts;
    for (const int64_t ranks : {int64_t{1}, load_.ranks}) {
      TW_ASSIGN(const sim::Costs costs,
                CostsOfRank(base_, checkpoint, ranks > 1, costs_at, load_.repeats));
      const sim::Link link = ranks > 1 ? MeasureThreadLink(static_cast<int>(ranks)) : sim::Link{};
      for (const int64_t batch : load_.batches) {
        TW_ASSIGN(const Measured measured, Measure(ranks, batch));
        TW_ASSIGN(const sim::Prediction predicted,
                  PredictDecode(checkpoint.config(), costs, link, measured.counts,
                                {.ranks = ranks, .batch = batch, .context = all.context}));
        all.figures.push_back({.ranks = ranks,
                               .batch = batch,
                               .predicted_ms = predicted.step_us / 1e3,
                               .measured_ms = measured.ms,
                               .busy_ms = ranks > 1 ? 0 : measured.busy_ms,
                               .link_ms = predicted.link_us / 1e3,
                               .imbalance = predicted.imbalance});
      }
    }
    return all;
  }

 private:
  struct Measured {
    double ms = 0;
    double busy_ms = 0;
    parallel::ExpertCounts counts = {};
  };

  // The first run counts where rows go; several ranks are placed by that in the others.
  Result<Measured> Measure(int64_t ranks, int64_t batch) const {
    const CountsFile file;
    const StepsLoad load{
        .sequences = ranks * batch, .prompt = load_.prompt, .tokens = load_.tokens};
    TW_TRY(RunRankSteps(OptionsOf(base_, ranks, file.path()), load).status());
    Measured measured;
    TW_ASSIGN(measured.counts, file.Read());
    std::vector<RankSteps> runs;
    for (int64_t i = 0; i < load_.repeats; ++i) {
      TW_ASSIGN(RankSteps run,
                RunRankSteps(OptionsOf(base_, ranks, ranks > 1 ? file.path() : ""), load));
      runs.push_back(std::move(run));
    }
    const std::vector<TimedStep> least = LeastOfRuns(runs);
    measured.ms = MeanUs(least) / 1e3;
    measured.busy_ms = MeanBusyUs(least) / 1e3;
    return measured;
  }

  const EngineOptions& base_;
  const ValidationLoad& load_;
};

// And the prediction over it.
std::string BusyText(const ValidationFigure& f) {
  if (f.busy_ms == 0) return "";
  return fmt::format("{:.3f} ({:.3f})", f.busy_ms, f.predicted_ms / f.busy_ms);
}

bool Good(const ValidationFigure& f) { return std::abs(f.Ratio() - 1) <= kPredictionBar; }

int64_t CountGood(const Validation& v) {
  return std::count_if(v.figures.begin(), v.figures.end(), Good);
}

Result<ValidationLoad> LoadFrom(const base::OptionValues& values, int64_t ranks) {
  ValidationLoad load;
  load.ranks = std::max<int64_t>(2, ranks);
  if (values.Has("batch")) {
    TW_ASSIGN(load.batches, ParseCounts(values.Text("batch"), "batch", kMostSequences));
  }
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
      "costs measured at {} sequences behind {} tokens; judged at {} tokens\n"
      "{:>6} {:>8} {:>13} {:>13} {:>7} {:>16} {:>9} {:>9}\n",
      fmt::join(v.cost_batches, ", "), fmt::join(v.cost_contexts, " and "), v.context, "ranks",
      "a rank", "predicted ms", "measured ms", "ratio", "processor ms", "links ms", "imbalance");
  for (const ValidationFigure& f : v.figures) {
    table += fmt::format("{:>6} {:>8} {:>13.3f} {:>13.3f} {:>7.3f} {:>16} {:>9.3f} {:>9.2f}  {}\n",
                         f.ranks, f.batch, f.predicted_ms, f.measured_ms, f.Ratio(), BusyText(f),
                         f.link_ms, f.imbalance, Good(f) ? "met" : "MISSED");
  }
  return table + fmt::format("within {:.0f} %: {} of {}\n", 100 * kPredictionBar, CountGood(v),
                             v.figures.size());
}

Json ToJson(const Validation& v) {
  Json json = {
      {"context", v.context},  {"cost_batches", v.cost_batches}, {"cost_contexts", v.cost_contexts},
      {"bar", kPredictionBar}, {"within", CountGood(v)},         {"figures", Json::array()}};
  for (const ValidationFigure& f : v.figures) {
    json["figures"].push_back({{"ranks", f.ranks},
                               {"batch_of_rank", f.batch},
                               {"predicted_ms", f.predicted_ms},
                               {"measured_ms", f.measured_ms},
                               {"processor_ms", f.busy_ms},
                               {"link_ms", f.link_ms},
                               {"imbalance", f.imbalance},
                               {"ratio", f.Ratio()}});
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
