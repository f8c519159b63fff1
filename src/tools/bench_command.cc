// `thalweg bench`: figures of this machine, one part at a time.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "tools/bench/costs.h"
#include "tools/bench/kernel.h"
#include "tools/bench/kernels.h"
#include "tools/bench/layers.h"
#include "tools/bench/model.h"
#include "tools/bench/ranks.h"
#include "tools/bench/ranks_decode.h"
#include "tools/bench/sampling.h"
#include "tools/bench/scheduler.h"
#include "tools/bench/serve.h"
#include "tools/bench/serving.h"
#include "tools/bench/spec.h"
#include "tools/bench/tokenizer.h"
#include "tools/command.h"
#include "tools/option_rows.h"
#include "tools/session.h"

namespace thalweg::tools {
namespace {

constexpr int64_t kMostBenchRows = 65536;
constexpr int64_t kMostBatch = 4096;
constexpr const char* kRunning = "64,128,256,512,1024";

Status BenchTokenizerOf(const OptionValues& values) {
  TW_ASSIGN(const std::filesystem::path folder, ModelFolder(values));
  TW_ASSIGN(const text::Tokenizer tokenizer, text::Tokenizer::Load(folder / "tokenizer.json"));
  return BenchTokenizer(tokenizer, values.Flag("json"));
}

// The backend named on the command line; threads, numerics and target too.
struct Machine {
  const kernels::Ops* ops = nullptr;
  std::unique_ptr<base::ThreadTeam> team;
};

Result<Machine> MachineOf(const OptionValues& values) {
  Machine machine;
  TW_ASSIGN(machine.ops, OpsFrom(values));
  machine.team = std::make_unique<base::ThreadTeam>(static_cast<int>(values.Integer("threads")),
                                                    PinningFrom(values));
  machine.team->PinCaller();
  return machine;
}

Status BenchKernelOf(const OptionValues& values) {
  TW_ASSIGN(const Machine machine, MachineOf(values));
  std::filesystem::path nano;
  if (values.Text("shape") == "nano") {
    TW_ASSIGN(nano, ModelFolder(values));
  }
  TW_ASSIGN(const bench::BenchShape shape, bench::ParseShape(values.Text("shape"), nano));
  bench::KernelBenchOptions options{.op = values.Text("op"),
                                    .seconds = values.Real("seconds"),
                                    .context = values.OptionalInteger("context").value_or(32768),
                                    .experts_per_call = values.Integer("experts-per-call")};
  TW_ASSIGN(options.rows, bench::ParseCounts(values.Text("rows"), "rows", kMostBenchRows));
  base::Json json = base::Json::array();
  const bool table = !values.Flag("json");
  if (table) fmt::print("{}\n", bench::TableHeader());
  TW_TRY(bench::BenchKernel(*machine.ops, *machine.team, shape, options,
                            [&](const bench::KernelFigure& figure) {
                              if (table) fmt::print("{}\n", bench::TableRow(figure));
                              if (table) std::fflush(stdout);
                              if (!table) json.push_back(bench::ToJson(figure));
                            }));
  if (!table) fmt::print("{}\n", json.dump(2));
  return {};
}

Status BenchSyntheticOf(const OptionValues& values) {
  TW_ASSIGN(const Machine machine, MachineOf(values));
  if (values.Text("shape") != "released") {
    return base::InvalidArgument("--synthetic makes layers of --shape released alone");
  }
  bench::LayersBenchOptions options{.layers = values.Integer("layers"),
                                    .experts = values.Integer("experts"),
                                    .context = values.OptionalInteger("context").value_or(32768),
                                    .prompt = values.OptionalInteger("prompt").value_or(2048),
                                    .per_op = values.Flag("per-op"),
                                    .graphs = values.Text("graphs") == "on",
                                    .acceptance = values.Real("acceptance")};
  TW_ASSIGN(options.batches, bench::ParseCounts(values.Text("batch"), "batch", kMostBatch));
  const bool json = values.Flag("json");
  TW_ASSIGN(const std::vector<bench::ModelFigure> figures,
            bench::BenchLayers(bench::ReleasedConfig(), *machine.ops, *machine.team, options,
                               [&](const std::string& line) { fmt::print(stderr, "{}\n", line); }));
  fmt::print("{}\n", json ? bench::ToJson(figures).dump(2) : bench::ToTable(figures));
  return {};
}

Status BenchModelOf(const OptionValues& values) {
  if (values.Flag("synthetic")) return BenchSyntheticOf(values);
  BenchModelOptions options;
  options.prompt_tokens = values.OptionalInteger("prompt").value_or(1024);
  options.decode_tokens = values.Integer("tokens");
  options.json = values.Flag("json");
  TW_ASSIGN(options.batches, bench::ParseCounts(values.Text("batch"), "batch", kMostBatch));
  const int64_t most = *std::max_element(options.batches.begin(), options.batches.end());
  TW_ASSIGN(SessionOptions session_options, SessionOptions::From(values));
  session_options.max_sequences = most;
  session_options.max_tokens = most * (options.prompt_tokens + options.decode_tokens + 64);
  TW_ASSIGN(Session session, OpenSession(session_options));
  TW_ASSIGN(const model::Replay replay, ReplayFrom(values, session.config()));
  return BenchModel(session, replay, options);
}

Status BenchKernelsOf(const OptionValues& values) {
  return BenchKernels({.only = values.Text("only"),
                       .threads = static_cast<int>(values.Integer("threads")),
                       .json = values.Flag("json")});
}

Status BenchSchedulerOf(const OptionValues& values) {
  const std::string running = values.Has("running") ? values.Text("running") : kRunning;
  TW_ASSIGN(const std::vector<int64_t> counts,
            bench::ParseCounts(running, "running", bench::kMostRunning));
  std::vector<bench::SchedulerFigure> figures;
  for (const int64_t count : counts) {
    TW_ASSIGN(const bench::SchedulerFigure figure,
              bench::BenchScheduler(count, values.OptionalInteger("context").value_or(1000), 1000));
    figures.push_back(figure);
  }
  const bool json = values.Flag("json");
  fmt::print("{}\n", json ? bench::ToJson(figures).dump(2) : bench::ToTable(figures));
  return {};
}

Status BenchSamplingOf(const OptionValues& values) {
  TW_ASSIGN(const std::vector<int64_t> vocabs,
            bench::ParseCounts(values.Text("vocab"), "vocab", bench::kMostSampledVocab));
  std::vector<bench::SamplingFigure> figures;
  for (const int64_t vocab : vocabs) {
    for (bench::SamplingFigure& f : bench::BenchSampling(vocab, values.Real("seconds")))
      figures.push_back(std::move(f));
  }
  const bool json = values.Flag("json");
  fmt::print("{}\n", json ? bench::ToJson(figures).dump(2) : bench::ToTable(figures));
  return {};
}

Status BenchThroughputOf(const OptionValues& values) {
  return bench::BenchServingCommand(bench::ServingKind::kThroughput, values);
}

Status BenchLatencyOf(const OptionValues& values) {
  return bench::BenchServingCommand(bench::ServingKind::kLatency, values);
}

struct Part {
  std::string_view name;
  Status (*run)(const OptionValues&);
  bool by_default;  // runs when no part is named
};

constexpr std::array kParts = {Part{"kernel", BenchKernelOf, false},
                               Part{"tokenizer", BenchTokenizerOf, true},
                               Part{"kernels", BenchKernelsOf, true},
                               Part{"model", BenchModelOf, true},
                               Part{"sampling", BenchSamplingOf, false},
                               Part{"scheduler", BenchSchedulerOf, false},
                               Part{"throughput", BenchThroughputOf, false},
                               Part{"latency", BenchLatencyOf, false},
                               Part{"serve", bench::BenchServeCommand, false},
                               Part{"spec", bench::BenchSpecCommand, false},
                               Part{"costs", bench::BenchCostsCommand, false},
                               Part{"ranks", bench::BenchRanksCommand, false},
                               Part{"ranks-decode", bench::BenchRanksDecodeCommand, false}};

Status UnknownPart(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Part& part : kParts) names.push_back(part.name);
  return base::InvalidArgument(
      fmt::format("unknown bench \"{}\": one of {}", name, fmt::join(names, ", ")));
}

Result<int> Bench(const OptionValues& values) {
  const std::vector<std::string>& named = values.positionals();
  const auto wanted = [&](const Part& part) {
    return named.empty() ? part.by_default : named.front() == part.name;
  };
  if (std::none_of(kParts.begin(), kParts.end(), wanted)) return UnknownPart(named.front());
  for (const Part& part : kParts) {
    if (wanted(part)) TW_TRY(part.run(values));
  }
  return kExitOk;
}

std::vector<OptionRow> KernelRows() {
  return {
      {.name = "op",
       .help = "the op to time, linear for its three formats, or all (kernel)",
       .fallback = "all",
       .choices = bench::KernelBenchNames()},
      {.name = "shape",
       .help = "sizes: released, nano, or KxN (K inputs, N outputs) for a product (kernel)",
       .fallback = "released",
       .value_name = "released|nano|KxN"},
      {.name = "rows",
       .help = "rows of a call, one figure each (kernel)",
       .fallback = "1,8,64",
       .value_name = "N,N,..."},
      CountRow("context",
               "cached tokens of a sequence (kernel, model --synthetic: 32768; scheduler: 1000)",
               "", 1, 1 << 20),
      CountRow("experts-per-call",
               "moe_ffn: routed experts that all rows of a call share; 0: as many as a token "
               "chooses for one row, one for more rows",
               "0", 0, 4096),
      {.name = "seconds",
       .kind = OptionKind::kReal,
       .help = "time spent on each figure (kernel, sampling, ranks)",
       .fallback = "0.3",
       .least = 0,
       .most = 600}};
}

std::vector<OptionRow> SyntheticRows() {
  return {
      {.name = "synthetic",
       .kind = OptionKind::kFlag,
       .help = "model: layers of released size with weights made up in memory"},
      CountRow("layers", "with --synthetic: how many; 0: as fit, at most 8", "0", 0, 40),
      CountRow("experts", "with --synthetic: of a layer; 0: as fit", "0", 0, 384),
      {.name = "acceptance",
       .kind = OptionKind::kReal,
       .help = "with --synthetic: steps with drafts too, at the speed that they would have if a "
               "step with a whole block brought so many tokens (3.51 is published); 0: none",
       .fallback = "0",
       .most = 65},
      {.name = "per-op",
       .kind = OptionKind::kFlag,
       .help = "with --synthetic: a figure for every op of a decode step"}};
}

std::vector<OptionRow> Rows() {
  std::vector<OptionRow> rows = ModelOptionRows();
  const auto add = [&](OptionRow row) {
    const auto same = [&](const OptionRow& other) { return other.name == row.name; };
    if (std::none_of(rows.begin(), rows.end(), same)) rows.push_back(std::move(row));
  };
  for (OptionRow& row : ReplayOptionRows("compact")) add(std::move(row));
  for (OptionRow& row : KernelRows()) add(std::move(row));
  for (OptionRow& row : SyntheticRows()) add(std::move(row));
  add(CountRow("prompt", "prompt tokens (model: 1024, with --synthetic 2048; ranks: 4096)", ""));
  add(CountRow("tokens", "tokens to decode (model), of an answer at most (spec)", "128"));
  add({.name = "batch",
       .help = "sequences that decode together, one figure each (model, spec)",
       .fallback = "1",
       .value_name = "N,N,..."});
  add({.name = "contexts",
       .help = "cached tokens before a decode step, figures for each (costs; default 1024)",
       .value_name = "N,N,..."});
  add({.name = "validate",
       .kind = OptionKind::kFlag,
       .help =
           "what thalweg simulate predicts for one rank and for --ranks, beside what steps take, "
           "for every --batch of a rank (ranks-decode)"});
  add(CountRow("repeats",
               "rounds of costs and equal steps in turns, of which medians count; with "
               "--rebalance-window runs, of which the fastest of each step counts (ranks-decode)",
               "3", 1, 1000));
  add({.name = "only", .help = "one backend or cpu target (kernels)"});
  add({.name = "running",
       .help = "sequences that decode, one figure each (scheduler; default 64 to 1024)",
       .value_name = "N,N,..."});
  add({.name = "vocab",
       .help = "tokens of a row, figures for each (sampling)",
       .fallback = "6144,129280",
       .value_name = "N,N,..."});
  for (OptionRow& row : bench::LoadOptions::Rows()) add(std::move(row));
  for (OptionRow& row : bench::ServeRows()) add(std::move(row));
  for (OptionRow& row : engine::EngineOptions::Rows()) add(std::move(row));
  for (OptionRow& row : bench::BenchSpecRows()) add(std::move(row));
  add({.name = "json", .kind = OptionKind::kFlag, .help = "print JSON"});
  return rows;
}

}  // namespace

Command BenchCommand() {
  return {
      .name = "bench",
      .about =
          "Measure this machine: tokenizer, kernels, model, sampling, scheduler, and an engine "
          "under load",
      .options = Rows(),
      .positionals = {.name = "PART",
                      .help =
                          "tokenizer, kernel (one op against this machine's ceilings), kernels "
                          "(all backends at the same products), model, sampling (a row of "
                          "logits to its token), scheduler (time of a step "
                          "of the control plane), throughput or latency (an engine under load), "
                          "serve (a server under load), spec (what speculation brings), "
                          "costs (what the ops of a step cost, for thalweg simulate), ranks (a "
                          "long prompt on one rank and on several; under mpirun, too), "
                          "ranks-decode (decode over ranks against as many threads, and against "
                          "what simulate predicts)",
                      .least = 0,
                      .most = 1},
      .run = Bench};
}

}  // namespace thalweg::tools
