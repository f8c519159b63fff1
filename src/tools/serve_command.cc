// `thalweg serve`: the model behind HTTP.
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "api/engine_model.h"
#include "api/errors.h"
#include "api/fake_model.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "engine/options.h"
#include "hub/hub.h"
#include "server/server.h"
#include "tools/command.h"
#include "tools/session.h"
#include "tools/signals.h"

namespace thalweg::tools {
namespace {

constexpr std::string_view kFakePrefix = "fake:";
constexpr uint64_t kMaxScriptBytes = 64ull << 20;
constexpr std::chrono::milliseconds kPoll{50};
constexpr int kPollsPerRefresh = 20;

std::vector<OptionRow> Rows() {
  std::vector<OptionRow> rows = server::ServerOptions::Rows();
  for (OptionRow& row : engine::EngineOptions::Rows()) {
    if (row.name == "model") row.help += "; fake:FILE: answers from a script (docs/server.md)";
    if (row.name == "log-level") row.fallback = "info";  // where it listens, how memory is divided
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<std::unique_ptr<api::ServedModel>> LoadFake(const OptionValues& values,
                                                   const std::filesystem::path& path) {
  TW_ASSIGN(const std::string text, base::ReadFile(path, kMaxScriptBytes));
  TW_ASSIGN(api::FakeScript script, api::ParseFakeScript(text));
  if (!values.Text("served-name").empty()) script.name = values.Text("served-name");
  std::filesystem::path file = script.tokenizer;
  if (file.empty()) {
    TW_ASSIGN(const hub::HubOptions options, hub::HubOptions::From(values));
    TW_ASSIGN(const std::filesystem::path folder, hub::FindModel("", options));
    file = folder / "tokenizer.json";
  }
  TW_ASSIGN(text::Tokenizer tokenizer, text::Tokenizer::Load(file));
  auto shared = std::make_shared<const text::Tokenizer>(std::move(tokenizer));
  return std::unique_ptr<api::ServedModel>(
      std::make_unique<api::FakeModel>(std::move(script), std::move(shared)));
}

Result<std::unique_ptr<api::ServedModel>> LoadEngine(const OptionValues& values) {
  LLMOptions options;
  options.interrupted = [] { return SignalCount() > 0; };
  for (const OptionRow& row : engine::EngineOptions::Rows()) {
    if (values.Has(row.name)) options.options[row.name] = values.Text(row.name);
  }
  auto model = api::EngineModel::Load(options, values.Text("served-name"));
  if (!model.ok()) return api::ToStatus(model.error());
  return std::unique_ptr<api::ServedModel>(*std::move(model));
}

Result<std::unique_ptr<api::ServedModel>> LoadModel(const OptionValues& values) {
  const std::string name = values.Text("model");
  if (name.starts_with(kFakePrefix)) return LoadFake(values, name.substr(kFakePrefix.size()));
  return LoadEngine(values);
}

Result<int> Run(const OptionValues& values) {
  CatchSignals(SecondSignal::kCounts);
  TW_TRY(base::SetUpLog(values.Text("log-level")));
  const server::ServerOptions options = server::ServerOptions::From(values);
  spdlog::info("options: {}", values.Describe());
  TW_ASSIGN(const std::unique_ptr<api::ServedModel> model, LoadModel(values));
  TW_ASSIGN(const std::unique_ptr<server::Server> server,
            server::Server::Start(model.get(), options));
  spdlog::info("serving {} (context {}) at http://{}:{}", model->name(), model->context_tokens(),
               options.host, server->port());
  for (int i = 1; SignalCount() == 0; ++i) {
    std::this_thread::sleep_for(kPoll);
    if (i % kPollsPerRefresh == 0) server->Refresh();
  }
  spdlog::info("{}: no new requests; {} s for those under way", SignalName(),
               options.grace_seconds);
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(static_cast<int64_t>(options.grace_seconds * 1000));
  server->Drain([&] { return SignalCount() > 1 || std::chrono::steady_clock::now() > until; });
  return kExitOk;
}

}  // namespace

Command ServeCommand() {
  return {.name = "serve",
          .about = "Serve the model over HTTP: OpenAI's, Anthropic's and DeepSeek's protocols",
          .options = Rows(),
          .run = Run};
}

}  // namespace thalweg::tools
