// `thalweg batch`: answers the lines of a file; killed at any moment and started again, it goes on.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "api/errors.h"
#include "base/json.h"
#include "engine/options.h"
#include "tools/batch/line_reader.h"
#include "tools/batch/run.h"
#include "tools/command.h"
#include "tools/run_identity.h"
#include "tools/signals.h"

namespace thalweg::tools {
namespace {

constexpr size_t kMaxClockHours = 1000;

std::vector<OptionRow> OwnRows() {
  return {
      {.name = "params",
       .help = "sampling params of lines that leave them out, as a JSON object",
       .fallback = "{}",
       .value_name = "JSON"},
      {.name = "seed",
       .kind = OptionKind::kInteger,
       .help = "lines without a seed draw theirs from it and their number",
       .fallback = "0",
       .most = 9.2e18},
      {.name = "max-in-flight",
       .kind = OptionKind::kInteger,
       .help = "requests that are read ahead and queued",
       .fallback = "256",
       .least = 1,
       .most = 1e6},
      {.name = "max-line-bytes",
       .kind = OptionKind::kInteger,
       .help = "longer lines of the input are errors",
       .fallback = "16777216",
       .least = 64,
       .most = 1e9},
      {.name = "grace",
       .kind = OptionKind::kReal,
       .help = "seconds for what is under way after Ctrl-C or SIGTERM; a second signal ends them",
       .fallback = "10",
       .most = 1e6},
  };
}

std::vector<OptionRow> Rows() {
  std::vector<OptionRow> rows = engine::EngineOptions::Rows();
  for (OptionRow& row : OwnRows()) rows.push_back(std::move(row));
  return rows;
}

bool IsOwn(std::string_view name) {
  const std::vector<OptionRow> own = OwnRows();
  return std::any_of(own.begin(), own.end(),
                     [&](const OptionRow& row) { return row.name == name; });
}

LLMOptions ModelOptions(const OptionValues& values) {
  LLMOptions options;
  options.interrupted = [] { return SignalCount() > 0; };
  for (const OptionRow& row : Rows()) {
    if (!IsOwn(row.name) && values.Has(row.name)) options.options[row.name] = values.Text(row.name);
  }
  return options;
}

// Short hash of what all results depend on. Results of different runs do not mix.
std::string RunIdentity(const OptionValues& values) {
  const std::string text = fmt::format("params={} seed={}{}", values.Text("params"),
                                       values.Text("seed"), EngineIdentity(values));
  return batch::HashText(batch::HashOf(text)).substr(0, 8);
}

std::string Clock(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(seconds, 0.0, kMaxClockHours * 3600.0));
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

void PrintProgress(const batch::BatchProgress& p) {
  const double done = p.share - p.share_at_start;
  const std::string left = done > 0 ? Clock(p.seconds * (1 - p.share) / done) : "?";
  fmt::print(stderr,
             "\r\033[Kthalweg batch {:5.1f}%  {} answered, {} under way, {:.0f} tok/s, {} left",
             100 * p.share, p.answered, p.under_way,
             static_cast<double>(p.output_tokens) / std::max(p.seconds, 1e-3), left);
  std::fflush(stderr);
}

void Wipe(bool visible) {
  if (visible) fmt::print(stderr, "\r\033[K");
}

// What happened, and how to go on.
int Report(const batch::BatchReport& report) {
  if (report.stopped) {
    fmt::print(
        stderr,
        "thalweg: stopped by {}: {} lines answered by this run, {}. The same command goes on.\n",
        SignalName(), report.written,
        report.abandoned > 0 ? fmt::format("{} under way abandoned", report.abandoned)
                             : "what was under way is finished");
    return SignalExitCode();
  }
  fmt::print(stderr,
             "thalweg: {} lines, {} answered by this run, {} before, {} of all are errors\n",
             report.lines, report.written, report.old, report.errors);
  return report.errors > 0 ? kExitCheckFailed : kExitOk;
}

Status CheckPaths(const std::filesystem::path& input, const std::filesystem::path& output) {
  std::error_code error;
  if (!std::filesystem::exists(input, error))
    return base::NotFound(fmt::format("{} does not exist", input.string()));
  if (!std::filesystem::equivalent(input, output, error)) return {};
  return base::InvalidArgument("input and results are one file: name another one for the results");
}

Result<batch::BatchOptions> OptionsFrom(const OptionValues& values) {
  if (values.Text("prefix-exactness") == "bounded") {
    return base::InvalidArgument(
        "thalweg batch gives every line a --seed and so a repeatable answer, which "
        "--prefix-exactness bounded does not keep: use exact");
  }
  batch::BatchOptions options;
  TW_ASSIGN(options.defaults, base::ParseJson(values.Text("params"), "--params"));
  // Its errors are told before a model is loaded, and not once for each line.
  const Expected<SamplingParams> params = SamplingParams::FromJson(values.Text("params"));
  if (!params.ok()) return base::InvalidArgument("--params: " + params.error().message);
  options.seed = static_cast<uint64_t>(values.Integer("seed"));
  options.max_in_flight = values.Integer("max-in-flight");
  options.max_line_bytes = static_cast<size_t>(values.Integer("max-line-bytes"));
  options.grace_seconds = values.Real("grace");
  return options;
}

Result<int> Run(const OptionValues& values) {
  const std::filesystem::path input = values.positionals()[0];
  const std::filesystem::path output = values.positionals()[1];
  TW_ASSIGN(const batch::BatchOptions options, OptionsFrom(values));
  TW_TRY(CheckPaths(input, output));
  TW_ASSIGN(batch::ResultFile results, batch::ResultFile::Open(output, RunIdentity(values)));
  if (results.cut_bytes() > 0) {
    fmt::print(stderr, "thalweg: {}: cut off {} bytes of a line that was not written to its end\n",
               output.string(), results.cut_bytes());
  }
  fmt::print(stderr, "thalweg: options: {}\n", values.Describe());
  CatchSignals(SecondSignal::kKills);
  Expected<LLM> llm = LLM::Load(ModelOptions(values));
  if (!llm.ok()) return api::ToStatus(llm.error());
  CatchSignals(SecondSignal::kCounts);
  const bool visible = isatty(STDERR_FILENO) == 1;
  std::function<void(const batch::BatchProgress&)> progress;
  if (visible) progress = PrintProgress;
  const Result<batch::BatchReport> report =
      batch::RunBatch(*llm, input, &results, options, SignalCount, progress);
  Wipe(visible);
  if (!report.ok()) return report.status();
  return Report(*report);
}

}  // namespace

Command BatchCommand() {
  return {.name = "batch",
          .about = "Answer the lines of a JSONL file; started again, it goes on where it ended",
          .options = Rows(),
          .positionals = {.name = "FILES",
                          .help = "IN.jsonl and OUT.jsonl (docs/api.md)",
                          .least = 2,
                          .most = 2},
          .run = Run};
}

}  // namespace thalweg::tools
