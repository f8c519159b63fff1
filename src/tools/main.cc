// The `thalweg` program: picks a command, resolves its options, runs it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "tools/command.h"
#include "tools/rank_main.h"
#include "tools/signals.h"

namespace thalweg::tools {
namespace {

std::vector<Command> Commands() {
  return {RunCommand(),          BatchCommand(),        ScoreCommand(),      ShiftCommand(),
          VerifyCommand(),       InspectCommand(),      DumpCommand(),       CompareCommand(),
          PullCommand(),         ServeCommand(),        SynthCommand(),      BenchCommand(),
          GrammarCheckCommand(), GrammarBenchCommand(), ChatEncodeCommand(), CalibrateCommand(),
          EvalCommand(),         SimulateCommand()};
}

std::string HelpOf(const OptionRow& row) {
  std::string help = row.help;
  if (!row.choices.empty()) help += fmt::format(" {{{}}}", fmt::join(row.choices, "|"));
  if (!row.fallback.empty()) help += fmt::format(" [default: {}]", row.fallback);
  if (!row.environment.empty()) help += fmt::format(" [environment: {}]", row.environment);
  return help;
}

std::string ValueName(const OptionRow& row) {
  if (!row.value_name.empty()) return row.value_name;
  switch (row.kind) {
    case OptionKind::kInteger: return "N";
    case OptionKind::kReal: return "X";
    default: return "NAME";
  }
}

std::string FlagOf(const OptionRow& row) {
  return row.name == "file" ? "-f,--file" : "--" + row.name;
}

// A command and what the command line gave it, before environment, file and
// defaults.
struct Parsed {
  Command command;
  CLI::App* app = nullptr;
  std::map<std::string, std::string> texts;
  std::map<std::string, bool> flags;
  std::vector<std::string> positionals;
  std::string option_file;
};

void AddOptions(Parsed* parsed) {
  for (const OptionRow& row : parsed->command.options) {
    if (row.kind == OptionKind::kFlag) {
      parsed->app->add_flag(fmt::format("--{0},!--no-{0}", row.name), parsed->flags[row.name],
                            HelpOf(row));
    } else {
      parsed->app->add_option(FlagOf(row), parsed->texts[row.name], HelpOf(row))
          ->type_name(ValueName(row));
    }
  }
  parsed->app->add_option("--options", parsed->option_file, "JSON file of option names and values")
      ->type_name("FILE");
  const Positionals& p = parsed->command.positionals;
  if (p.name.empty()) return;
  parsed->app->add_option(p.name, parsed->positionals, p.help)
      ->expected(p.least, p.most)
      ->required(p.least > 0);
}

Result<OptionValues> Resolve(const Parsed& parsed) {
  OptionValues values;
  for (const OptionRow& row : parsed.command.options) {
    if (parsed.app->get_option("--" + row.name)->count() == 0) continue;
    const bool flag = row.kind == OptionKind::kFlag;
    values.Set(row.name,
               flag ? (parsed.flags.at(row.name) ? "true" : "false") : parsed.texts.at(row.name));
  }
  values.SetPositionals(parsed.positionals);
  TW_TRY(ResolveOptions(parsed.command.options, parsed.option_file, &values));
  return values;
}

int Report(const Status& status) {
  if (SignalCount() > 0) {
    fmt::print(stderr, "thalweg: stopped by {}: {}\n", SignalName(), status.message());
    return SignalExitCode();
  }
  fmt::print(stderr, "thalweg: {}\n", status.ToString());
  return kExitError;
}

int RunParsed(const Parsed& parsed) {
  const Result<OptionValues> values = Resolve(parsed);
  if (!values.ok()) return Report(values.status());
  const Result<int> code = RunOnRanks(parsed.command, *values);
  return code.ok() ? *code : Report(code.status());
}

// "grammar check" is the part `check` of `grammar`.
CLI::App* AddCommand(CLI::App* app, const Command& command) {
  const size_t space = command.name.find(' ');
  if (space == std::string::npos) return app->add_subcommand(command.name, command.about);
  const std::string whole = command.name.substr(0, space);
  CLI::App* parent = nullptr;
  for (CLI::App* sub : app->get_subcommands({})) {
    if (sub->get_name() == whole) parent = sub;
  }
  if (parent == nullptr) {
    parent =
        app->add_subcommand(whole, "Text that a grammar binds: check a text, measure a corpus");
    parent->require_subcommand(1);
  }
  return parent->add_subcommand(command.name.substr(space + 1), command.about);
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Thalweg: inference for DeepSeek-V4.1-Flash. Flags win over "
      "environment variables, those "
      "over the\n"
      "option file, that over defaults.",
      "thalweg");
  app.set_version_flag("--version", THALWEG_VERSION);
  app.require_subcommand(1);
  std::vector<std::unique_ptr<Parsed>> commands;
  for (Command& command : Commands()) {
    auto parsed = std::make_unique<Parsed>();
    parsed->command = std::move(command);
    parsed->app = AddCommand(&app, parsed->command);
    AddOptions(parsed.get());
    commands.push_back(std::move(parsed));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitError;
  }
  for (const auto& parsed : commands) {
    if (parsed->app->parsed()) return RunParsed(*parsed);
  }
  return kExitError;
}

}  // namespace
}  // namespace thalweg::tools

int main(int argc, char** argv) { return thalweg::tools::Main(argc, argv); }
