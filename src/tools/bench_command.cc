// `thalweg bench`: figures of this machine, one part at a time.
#include <fmt/format.h>

#include "tools/bench_kernels.h"
#include "tools/bench_model.h"
#include "tools/bench_tokenizer.h"
#include "tools/command.h"
#include "tools/session.h"

namespace thalweg::tools {
namespace {

Status BenchTokenizerOf(const OptionValues& values) {
  TW_ASSIGN(const std::filesystem::path folder, ModelFolder(values));
  TW_ASSIGN(const text::Tokenizer tokenizer, text::Tokenizer::Load(folder / "tokenizer.json"));
  return BenchTokenizer(tokenizer, values.Flag("json"));
}

Status BenchModelOf(const OptionValues& values) {
  BenchModelOptions options;
  options.prompt_tokens = values.Integer("prompt");
  options.decode_tokens = values.Integer("tokens");
  options.batch = values.Integer("batch");
  options.json = values.Flag("json");
  TW_ASSIGN(SessionOptions session_options, SessionOptions::From(values));
  session_options.max_sequences = options.batch;
  session_options.max_tokens = options.batch * (options.prompt_tokens + options.decode_tokens + 64);
  TW_ASSIGN(Session session, OpenSession(session_options));
  TW_ASSIGN(const model::Replay replay, ReplayFrom(values, session.config()));
  return BenchModel(session, replay, options);
}

Result<int> Bench(const OptionValues& values) {
  const std::vector<std::string>& parts = values.positionals();
  const auto wanted = [&](std::string_view part) { return parts.empty() || parts.front() == part; };
  if (!wanted("tokenizer") && !wanted("kernels") && !wanted("model")) {
    return base::InvalidArgument(
        fmt::format("unknown bench \"{}\": one of tokenizer, kernels, model", parts.front()));
  }
  if (wanted("tokenizer")) TW_TRY(BenchTokenizerOf(values));
  if (wanted("kernels")) {
    TW_TRY(BenchKernels({.only = values.Text("only"),
                         .threads = static_cast<int>(values.Integer("threads")),
                         .json = values.Flag("json")}));
  }
  if (wanted("model")) TW_TRY(BenchModelOf(values));
  return kExitOk;
}

std::vector<OptionRow> Rows() {
  std::vector<OptionRow> rows = ModelOptionRows();
  for (OptionRow& row : ReplayOptionRows("compact")) rows.push_back(std::move(row));
  const auto count = [](std::string name, std::string help, std::string fallback) {
    return OptionRow{.name = std::move(name),
                     .kind = OptionKind::kInteger,
                     .help = std::move(help),
                     .fallback = std::move(fallback),
                     .least = 1,
                     .most = 1e6};
  };
  rows.push_back(count("prompt", "prompt tokens (model)", "1024"));
  rows.push_back(count("tokens", "tokens to decode (model)", "128"));
  rows.push_back(count("batch", "sequences that decode together (model)", "1"));
  rows.push_back({.name = "only", .help = "one backend or cpu target (kernels)"});
  rows.push_back({.name = "json", .kind = OptionKind::kFlag, .help = "print JSON"});
  return rows;
}

}  // namespace

Command BenchCommand() {
  return {
      .name = "bench",
      .about = "Measure this machine: tokenizer, kernels, model (all without an argument)",
      .options = Rows(),
      .positionals = {.name = "PART", .help = "tokenizer, kernels or model", .least = 0, .most = 1},
      .run = Bench};
}

}  // namespace thalweg::tools
