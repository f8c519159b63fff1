// `thalweg pull`: a model of the Hugging Face Hub into the cache, ahead of time.
#include <fmt/format.h>

#include "base/json.h"
#include "base/log.h"
#include "hub/hub.h"
#include "tools/command.h"
#include "tools/signals.h"

namespace thalweg::tools {
namespace {

Result<hub::HubOptions> PullOptions(const OptionValues& values) {
  TW_ASSIGN(hub::HubOptions options, hub::HubOptions::From(values));
  options.jobs = static_cast<int>(values.Integer("jobs"));
  options.all_files = values.Flag("all-files");
  if (values.Has("token-file")) {
    TW_ASSIGN(options.token, hub::ReadTokenFile(values.Text("token-file")));
  }
  options.progress = hub::TerminalProgress();
  options.notice = [](std::string_view sentence) { fmt::print(stderr, "{}\n", sentence); };
  options.interrupted = [] { return SignalCount() > 0; };
  return options;
}

void PrintReport(const std::string& name, const hub::PullReport& report, bool json) {
  if (!json) {
    fmt::print("{}\n", report.folder.string());
    return;
  }
  const base::Json out = {{"model", name},
                          {"commit", report.commit},
                          {"folder", report.folder.string()},
                          {"files", report.files},
                          {"bytes", report.bytes},
                          {"received_bytes", report.bytes_received},
                          {"seconds", report.seconds}};
  fmt::print("{}\n", out.dump(2));
}

// Offline there is nothing to pull, but it can be said whether the model is there.
Result<int> FindOffline(const std::string& name, const hub::HubOptions& options, bool json) {
  TW_ASSIGN(const auto folder, hub::FindModel(name, options));
  PrintReport(name, {.folder = folder, .commit = folder.filename().string()}, json);
  return kExitOk;
}

Result<int> Pull(const OptionValues& values) {
  TW_TRY(base::SetUpLog(values.Text("log-level")));
  TW_ASSIGN(const hub::HubOptions options, PullOptions(values));
  const std::string& name = values.positionals().front();
  if (options.offline) return FindOffline(name, options, values.Flag("json"));
  CatchSignals(SecondSignal::kKills);
  TW_ASSIGN(const hub::PullReport report, hub::Pull(name, options));
  PrintReport(name, report, values.Flag("json"));
  return kExitOk;
}

std::vector<OptionRow> Rows() {
  std::vector<OptionRow> rows = hub::HubOptions::Rows();
  std::erase_if(rows, [](const OptionRow& row) { return row.name == "model"; });
  const std::vector<OptionRow> own = {
      {.name = "token-file",
       .help = "file with a token; else HF_TOKEN, HF_TOKEN_PATH, HF_HOME/token",
       .value_name = "FILE"},
      {.name = "jobs",
       .kind = OptionKind::kInteger,
       .help = "files transferred at a time",
       .fallback = "8",
       .least = 1,
       .most = 64},
      {.name = "all-files",
       .kind = OptionKind::kFlag,
       .help = "every file of the repository, not only those that the engine reads"},
      {.name = "json", .kind = OptionKind::kFlag, .help = "print JSON"},
      {.name = "log-level",
       .help = "what to log",
       .fallback = "warn",
       .choices = {"debug", "info", "warn", "error", "off"}},
  };
  rows.insert(rows.end(), own.begin(), own.end());
  return rows;
}

}  // namespace

Command PullCommand() {
  return {.name = "pull",
          .about = "Bring a model from the Hugging Face Hub into the cache; prints its folder",
          .options = Rows(),
          .positionals = {.name = "NAME", .help = "org/name", .least = 1, .most = 1},
          .run = Pull};
}

}  // namespace thalweg::tools
