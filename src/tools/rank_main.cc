#include "tools/rank_main.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "engine/rank_process.h"
#include "tools/signals.h"

namespace thalweg::tools {
namespace {

using engine::RankProcess;

// Commands whose work an engine does, and those that run their model themselves.
constexpr std::array<std::string_view, 4> kOnRanks = {"batch", "serve", "run", "score"};
constexpr std::array<std::string_view, 2> kWithoutEngine = {"run", "score"};
// What hosts may differ in.
constexpr std::array<std::string_view, 5> kOfTheHost = {"model-dir", "threads", "pin", "log-level",
                                                        "trace"};

bool Contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

comm::AgreedFields FieldsOf(const Command& command, const OptionValues& values) {
  comm::AgreedFields fields = {{"version", THALWEG_VERSION}, {"command", command.name}};
  for (const OptionRow& row : command.options)
    if (!Contains(kOfTheHost, row.name))
      fields.emplace_back("option --" + row.name, values.Text(row.name));
  for (const std::string& text : values.positionals()) fields.emplace_back("argument", text);
  return fields;
}

// What every rank runs by itself, together with the others.
bool RunsEverywhere(const Command& command, const OptionValues& values) {
  return command.name == "bench" && values.positionals() == std::vector<std::string>{"ranks"};
}

Status CheckCommand(const Command& command, const OptionValues& values) {
  if (RunsEverywhere(command, values)) return {};
  if (!Contains(kOnRanks, command.name))
    return base::Unsupported(
        fmt::format("thalweg {} runs on one rank: start it without mpirun (on several run {})",
                    command.name, fmt::join(kOnRanks, ", ")));
  if (!values.Text("model").starts_with("fake:")) return {};
  return base::Unsupported("answers from a script need no ranks: start it without mpirun");
}

// Rank 0 tells the others when it is time to go: what a terminal sends to all is not for them.
void LeaveSignalsToRank0() {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
}

Status FollowCommand(RankProcess* process, const Command& command, const OptionValues& values) {
  if (Contains(kWithoutEngine, command.name)) {
    TW_ASSIGN(const engine::EngineOptions options, engine::EngineOptions::ForwardFrom(values));
    return process->FollowForwards(options);
  }
  TW_ASSIGN(const engine::EngineOptions options, engine::EngineOptions::From(values));
  return process->Follow(options);
}

Result<int> Follow(RankProcess* process, const Command& command, const OptionValues& values) {
  LeaveSignalsToRank0();
  const Status status = FollowCommand(process, command, values);
  if (!status.ok()) process->Leave(status);
  if (const Status ended = process->End(); !ended.ok()) process->Leave(ended);
  return kExitOk;
}

Result<int> Lead(RankProcess* process, const Command& command, const OptionValues& values) {
  const Result<int> code = command.run(values);
  if (const Status group = process->world().Check(); !group.ok()) process->Leave(group);
  // The others wait for an engine that there was none of.
  if (!process->led())
    process->Leave(code.ok() ? base::FailedPrecondition("nothing was to do") : code.status());
  if (const Status ended = process->End(); !ended.ok()) process->Leave(ended);
  return code;
}

Result<int> RunEverywhere(RankProcess* process, const Command& command,
                          const OptionValues& values) {
  const Result<int> code = command.run(values);
  if (!code.ok()) process->Leave(code.status());
  if (const Status ended = process->End(); !ended.ok()) process->Leave(ended);
  return code;
}

Result<int> RunTogether(RankProcess* process, const Command& command, const OptionValues& values) {
  if (process->world().size() == 1) {
    TW_TRY(process->End());
    return command.run(values);
  }
  Status status = process->Agree(FieldsOf(command, values));
  if (status.ok()) status = CheckCommand(command, values);
  if (status.ok() && RunsEverywhere(command, values))
    return RunEverywhere(process, command, values);
  if (status.ok())
    return process->leads() ? Lead(process, command, values) : Follow(process, command, values);
  const std::string rank = fmt::format("rank {}", process->world().rank());
  TW_TRY(process->End());
  return status.WithContext(rank);
}

}  // namespace

Result<int> RunOnRanks(const Command& command, const OptionValues& values) {
  if (!RankProcess::Launched()) return command.run(values);
  TW_ASSIGN(const std::unique_ptr<RankProcess> process, RankProcess::Start());
  return RunTogether(process.get(), command, values);
}

}  // namespace thalweg::tools
