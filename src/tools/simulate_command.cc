// `thalweg simulate --cluster FILE`: how fast ranks would be that nobody has at hand.
#include <fmt/format.h>

#include "base/json.h"
#include "base/mapped_file.h"
#include "sim/predict.h"
#include "tools/command.h"
#include "tools/option_rows.h"

namespace thalweg::tools {
namespace {

using base::Json;
using sim::Prediction;

std::string Table(const std::vector<Prediction>& all) {
  std::string table = fmt::format(
      "{:<8} {:>6} {:>6} {:>8} {:>11} {:>10} {:>10} {:>8} {:>9} {:>9} {:>12} {:>10} {:>9} {:>6}\n",
      "phase", "ranks", "batch", "prompt", "step ms", "dense", "experts", "skew", "links", "other",
      "tok/s", "a rank", "a user", "imbal");
  for (const Prediction& p : all) {
    table += fmt::format(
        "{:<8} {:>6} {:>6} {:>8} {:>11.3f} {:>10.3f} {:>10.3f} {:>8.3f} {:>9.3f} {:>9.3f} "
        "{:>12.0f} "
        "{:>10.1f} {:>9.1f} "
        "{:>6.2f}\n",
        p.phase, p.ranks, p.batch, p.prompt, p.step_us / 1e3, p.dense_us / 1e3, p.experts_us / 1e3,
        p.skew_us / 1e3, p.link_us / 1e3, p.other_us / 1e3, p.tokens_per_s, p.tokens_per_s_per_rank,
        p.tokens_per_s_per_user, p.imbalance);
  }
  return table;
}

Json ToJson(const Prediction& p) {
  Json ops = Json::object();
  for (const auto& [op, us] : p.ops) ops[op] = us / 1e3;
  return {{"phase", p.phase},
          {"ranks", p.ranks},
          {"batch", p.batch},
          {"prompt", p.prompt},
          {"ms_per_step", p.step_us / 1e3},
          {"dense_ms", p.dense_us / 1e3},
          {"experts_ms", p.experts_us / 1e3},
          {"skew_ms", p.skew_us / 1e3},
          {"link_ms", p.link_us / 1e3},
          {"other_ms", p.other_us / 1e3},
          {"tokens_per_s", p.tokens_per_s},
          {"tokens_per_s_per_rank", p.tokens_per_s_per_rank},
          {"tokens_per_s_per_user", p.tokens_per_s_per_user},
          {"imbalance", p.imbalance},
          {"bytes_per_row_and_layer", p.bytes_per_row},
          {"ops_ms", std::move(ops)}};
}

std::string Csv(const std::vector<Prediction>& all) {
  std::string csv =
      "phase,ranks,batch,prompt,ms_per_step,dense_ms,experts_ms,link_ms,other_ms,tokens_per_s,"
      "tokens_per_s_per_rank,tokens_per_s_per_user,imbalance,skew_ms\n";
  for (const Prediction& p : all) {
    csv += fmt::format(
        "{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.4f},{:.6g}\n",
        p.phase, p.ranks, p.batch, p.prompt, p.step_us / 1e3, p.dense_us / 1e3, p.experts_us / 1e3,
        p.link_us / 1e3, p.other_us / 1e3, p.tokens_per_s, p.tokens_per_s_per_rank,
        p.tokens_per_s_per_user, p.imbalance, p.skew_us / 1e3);
  }
  return csv;
}

// Throughput over speed of a user, from the CSV beside it.
std::string Plot(const std::string& name) {
  return fmt::format(
      "set datafile separator ','\n"
      "set terminal svg size 900,500\n"
      "set output '{0}.svg'\n"
      "set title 'decode, predicted'\n"
      "set xlabel 'tokens/s of a user'\n"
      "set ylabel 'tokens/s of a rank'\n"
      "set grid\n"
      "plot '{0}.csv' using (stringcolumn(1) eq 'decode' ? $12 : NaN):11 every ::1 "
      "with linespoints pt 7 title 'decode'\n",
      name);
}

void OverrideRanks(const OptionValues& values, sim::Cluster* cluster) {
  if (!values.Has("ranks")) return;
  cluster->decode.ranks = values.Integer("ranks");
  cluster->prefill.ranks = values.Integer("ranks");
}

Result<int> Simulate(const OptionValues& values) {
  if (!values.Has("cluster")) return base::InvalidArgument("give --cluster FILE");
  TW_ASSIGN(sim::Cluster cluster, sim::ReadCluster(values.Text("cluster")));
  OverrideRanks(values, &cluster);
  TW_ASSIGN(const std::vector<Prediction> all, sim::Predict(cluster));
  if (values.Has("plot")) {
    const std::string name = values.Text("plot");
    TW_TRY(base::WriteFile(name + ".csv", Csv(all)));
    TW_TRY(base::WriteFile(name + ".gnuplot", Plot(name)));
  }
  if (!values.Flag("json")) {
    fmt::print("costs: {}\n{}", cluster.costs.source, Table(all));
    return kExitOk;
  }
  Json json = {{"costs", cluster.costs.source}, {"predictions", Json::array()}};
  for (const Prediction& p : all) json["predictions"].push_back(ToJson(p));
  fmt::print("{}\n", json.dump(2));
  return kExitOk;
}

std::vector<OptionRow> Rows() {
  return {
      {.name = "cluster",
       .help = "JSON: model, costs, links, routing and load (docs/evaluation.md)",
       .value_name = "FILE"},
      CountRow("ranks", "instead of those in the file, for decode and prefill", "", 1, 1024),
      {.name = "plot",
       .help = "writes NAME.csv and NAME.gnuplot, which makes NAME.svg",
       .value_name = "NAME"},
      {.name = "json", .kind = OptionKind::kFlag, .help = "print JSON"},
  };
}

}  // namespace

Command SimulateCommand() {
  return {.name = "simulate",
          .about = "Predict prefill and decode of any number of ranks from measured costs",
          .options = Rows(),
          .positionals = {},
          .run = Simulate};
}

}  // namespace thalweg::tools
