// `thalweg eval`: scores an accuracy set through the engine; killed at any moment and started
// again, it goes on.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "api/errors.h"
#include "engine/options.h"
#include "tools/batch/line_reader.h"
#include "tools/command.h"
#include "tools/eval/run.h"
#include "tools/eval/summary.h"
#include "tools/option_rows.h"
#include "tools/run_identity.h"
#include "tools/session.h"
#include "tools/signals.h"

namespace thalweg::tools {
namespace {

std::vector<OptionRow> OwnRows() {
  return {
      {.name = "seed",
       .kind = OptionKind::kInteger,
       .help = "items without a seed draw theirs from it and their line",
       .fallback = "0",
       .most = 9.2e18},
      CountRow("limit", "only the first N items; none: all", "", 1, 1e9),
      CountRow("max-in-flight", "requests that are under way at once", "256"),
      {.name = "grace",
       .kind = OptionKind::kReal,
       .help = "seconds for what is under way after Ctrl-C or SIGTERM; a second signal ends them",
       .fallback = "10",
       .most = 1e6},
      {.name = "json", .kind = OptionKind::kFlag, .help = "print the summary as JSON"},
  };
}

std::vector<OptionRow> Rows() {
  std::vector<OptionRow> rows = engine::EngineOptions::Rows();
  for (OptionRow& row : OwnRows()) rows.push_back(std::move(row));
  return rows;
}

LLMOptions ModelOptions(const OptionValues& values) {
  LLMOptions options;
  options.interrupted = [] { return SignalCount() > 0; };
  for (const OptionRow& row : engine::EngineOptions::Rows()) {
    if (values.Has(row.name)) options.options[row.name] = values.Text(row.name);
  }
  return options;
}

// Short hash of what all scores depend on beside their items: the model, the options, the seed.
Result<std::string> RunIdentity(const OptionValues& values) {
  TW_ASSIGN(const std::filesystem::path folder, ModelFolder(values));
  TW_ASSIGN(const std::string model, ModelIdentity(folder));
  const std::string text =
      fmt::format("eval {} seed={}{}", model, values.Text("seed"), EngineIdentity(values));
  return batch::HashText(batch::HashOf(text)).substr(0, 8);
}

void PrintProgress(const eval::EvalProgress& p) {
  fmt::print(stderr, "\r\033[Kthalweg eval {} of {} items, {:.0f} s", p.done, p.total, p.seconds);
  std::fflush(stderr);
}

int Stopped(const eval::EvalReport& report) {
  fmt::print(stderr,
             "thalweg: stopped by {}: {} items scored by this run, {} abandoned. The same command "
             "goes on.\n",
             SignalName(), report.scored, report.abandoned);
  return SignalExitCode();
}

Result<int> Report(const OptionValues& values) {
  TW_ASSIGN(const std::vector<eval::Score> scores, eval::ReadScores(values.positionals()[1]));
  const eval::EvalSummary summary = eval::Summarise(scores);
  if (values.Flag("json")) {
    base::Json json = eval::ToJson(summary);
    json["set"] = values.positionals()[0];
    json["results"] = values.positionals()[1];
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}", eval::ToTable(summary));
  }
  return summary.errors > 0 ? kExitCheckFailed : kExitOk;
}

Result<int> Run(const OptionValues& values) {
  TW_ASSIGN(const std::vector<eval::Item> items, eval::ReadSet(values.positionals()[0]));
  if (values.Text("prefix-exactness") == "bounded") {
    return base::InvalidArgument(
        "--prefix-exactness bounded makes scores depend on what ran before them: use exact");
  }
  TW_ASSIGN(const std::string identity, RunIdentity(values));
  TW_ASSIGN(batch::ResultFile results, batch::ResultFile::Open(values.positionals()[1], identity));
  CatchSignals(SecondSignal::kKills);
  Expected<LLM> llm = LLM::Load(ModelOptions(values));
  if (!llm.ok()) return api::ToStatus(llm.error());
  CatchSignals(SecondSignal::kCounts);
  const bool visible = isatty(STDERR_FILENO) == 1;
  std::function<void(const eval::EvalProgress&)> progress;
  if (visible) progress = PrintProgress;
  const auto limit = static_cast<size_t>(values.OptionalInteger("limit").value_or(INT64_MAX));
  const eval::EvalOptions options{.seed = static_cast<uint64_t>(values.Integer("seed")),
                                  .max_in_flight = values.Integer("max-in-flight"),
                                  .limit = limit,
                                  .grace_seconds = values.Real("grace")};
  const Result<eval::EvalReport> report =
      eval::RunEval(*llm, items, &results, options, SignalCount, progress);
  if (visible) fmt::print(stderr, "\r\033[K");
  if (!report.ok()) return report.status();
  return report->stopped ? Result<int>(Stopped(*report)) : Report(values);
}

}  // namespace

Command EvalCommand() {
  return {
      .name = "eval",
      .about = "Score an accuracy set through the engine: perplexity, choices, answers, schemas",
      .options = Rows(),
      .positionals = {.name = "FILES",
                      .help = "SET.jsonl and RESULTS.jsonl (docs/evaluation.md)",
                      .least = 2,
                      .most = 2},
      .run = Run};
}

}  // namespace thalweg::tools
