#include "tools/inspect/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace thalweg::tools {
namespace {

using parallel::BalanceShape;
using parallel::ExpertCounts;
using parallel::Placement;
using parallel::PlacementShape;

constexpr int kBarWidth = 30;
constexpr double kBarMost = 3;  // the imbalance that fills a bar

Result<Placement> PlacementBefore(const InspectExpertsOptions& options,
                                  const ExpertCounts& counts) {
  const auto layers = static_cast<int64_t>(counts.layers.size());
  if (options.placement.empty()) {
    if (options.ranks == 0) return base::InvalidArgument("give --ranks, or --placement");
    TW_ASSIGN(const PlacementShape shape,
              parallel::ShapeFor(counts.experts, options.ranks, options.spare));
    return parallel::InOrder(shape, layers);
  }
  TW_ASSIGN(Placement placement, parallel::ReadPlacement(options.placement));
  if (options.ranks != 0 && options.ranks != placement.shape.ranks)
    return base::InvalidArgument(
        fmt::format("--ranks {} and a placement for {}", options.ranks, placement.shape.ranks));
  return placement;
}

// Load over the mean, descending.
std::vector<double> Relative(std::vector<double> loads) {
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  const double mean = sum > 0 ? sum / static_cast<double>(loads.size()) : 1;
  for (double& load : loads) load /= mean;
  std::sort(loads.begin(), loads.end(), std::greater<>());
  return loads;
}

std::vector<std::vector<double>> RelativeLoads(const Placement& placement,
                                               const ExpertCounts& counts) {
  const auto loads = counts.Loads();
  std::vector<std::vector<double>> relative;
  for (size_t i = 0; i < loads.size(); ++i)
    relative.push_back(
        Relative(parallel::RankLoads(placement.layers[i], placement.shape, loads[i])));
  return relative;
}

double LargestShare(const std::vector<int64_t>& layer, int64_t rows) {
  if (layer.empty() || rows == 0) return 0;
  return static_cast<double>(*std::max_element(layer.begin(), layer.end())) /
         static_cast<double>(rows);
}

std::string Bar(double imbalance) {
  const double filled = std::clamp((imbalance - 1) / (kBarMost - 1), 0.0, 1.0) * kBarWidth;
  return std::string(static_cast<size_t>(filled + 0.5), '#');
}

}  // namespace

Result<ExpertReport> InspectExperts(const InspectExpertsOptions& options) {
  TW_ASSIGN(const ExpertCounts counts, parallel::ReadCounts(options.counts));
  TW_ASSIGN(const Placement before, PlacementBefore(options, counts));
  const BalanceShape shape{before.shape, options.groups, options.nodes};
  // Every layer that can be better is placed anew: this shows what there is to gain.
  TW_ASSIGN(const parallel::RebalancePlan plan,
            parallel::PlanRebalance(shape, before, counts,
                                    {.least_imbalance = 1, .least_gain = 1e-9, .least_rows = 0}));
  ExpertReport report{.shape = before.shape, .rows = counts.rows};
  report.before = parallel::ImbalanceByLayer(before, counts);
  report.after = parallel::ImbalanceByLayer(plan.placement, counts);
  report.ranks_before = RelativeLoads(before, counts);
  report.ranks_after = RelativeLoads(plan.placement, counts);
  report.moves.resize(counts.layers.size());
  for (const parallel::Move& move : plan.moves) ++report.moves[static_cast<size_t>(move.layer)];
  for (const auto& layer : counts.layers)
    report.largest_share.push_back(LargestShare(layer, counts.rows));
  report.placement = plan.placement;
  return report;
}

std::string ExpertTable(const ExpertReport& report) {
  std::string text = fmt::format(
      "{} experts on {} ranks of {} slots, {} rows counted\n"
      "load of the busiest rank over the mean (1 is even; a full bar is {})\n\n"
      "{:>5}  {:>12}  {:>7}  {:>7}  {:>6}  {:<{}}  {}\n",
      report.shape.experts, report.shape.ranks, report.shape.slots_per_rank, report.rows, kBarMost,
      "layer", "top expert", "before", "after", "moves", "before", kBarWidth, "after");
  for (size_t i = 0; i < report.before.size(); ++i)
    text += fmt::format("{:>5}  {:>10.2f} %  {:>7.3f}  {:>7.3f}  {:>6}  {:<{}}  {}\n", i,
                        100 * report.largest_share[i], report.before[i], report.after[i],
                        report.moves[i], Bar(report.before[i]), kBarWidth, Bar(report.after[i]));
  return text;
}

base::Json ExpertJson(const ExpertReport& report) {
  base::Json json;
  json["experts"] = report.shape.experts;
  json["ranks"] = report.shape.ranks;
  json["slots_per_rank"] = report.shape.slots_per_rank;
  json["rows"] = report.rows;
  json["layers"] = base::Json::array();
  for (size_t i = 0; i < report.before.size(); ++i)
    json["layers"].push_back({{"layer", i},
                              {"largest_share", report.largest_share[i]},
                              {"before", report.before[i]},
                              {"after", report.after[i]},
                              {"moves", report.moves[i]}});
  return json;
}

std::string ExpertCsv(const ExpertReport& report) {
  std::string text = "layer,place,before,after\n";
  for (size_t i = 0; i < report.before.size(); ++i)
    for (size_t r = 0; r < report.ranks_before[i].size(); ++r)
      text += fmt::format("{},{},{:.6f},{:.6f}\n", i, r, report.ranks_before[i][r],
                          report.ranks_after[i][r]);
  return text;
}

std::string ExpertPlot(const ExpertReport& report, const std::string& name) {
  return fmt::format(
      "set datafile separator ','\n"
      "set terminal svg size 900,500\n"
      "set output '{0}.svg'\n"
      "set title '{1} experts on {2} ranks: load of ranks, by layer'\n"
      "set xlabel 'layer'\n"
      "set ylabel 'load over the mean'\n"
      "set yrange [0:*]\n"
      "set grid\n"
      "plot '{0}.csv' using ($1-0.15):3 every ::1 with points pt 7 ps 0.4 title 'before', \\\n"
      "     '{0}.csv' using ($1+0.15):4 every ::1 with points pt 7 ps 0.4 title 'after'\n",
      name, report.shape.experts, report.shape.ranks);
}

}  // namespace thalweg::tools
