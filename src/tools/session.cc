#include "tools/session.h"

#include <fmt/format.h>

#include <chrono>

#include "base/log.h"
#include "engine/options.h"
#include "hub/hub.h"
#include "tools/progress.h"
#include "tools/signals.h"

namespace thalweg::tools {
namespace {

Result<std::unique_ptr<checkpoint::Checkpoint>> OpenCheckpoint(const SessionOptions& options) {
  checkpoint::LoadFilter filter;
  filter.draft = options.draft;
  filter.vision = false;
  TW_ASSIGN(checkpoint::Checkpoint opened, checkpoint::Checkpoint::Open(options.folder, filter));
  return std::make_unique<checkpoint::Checkpoint>(std::move(opened));
}

// With the other ranks, where there are some.
Result<std::unique_ptr<model::Model>> LoadModel(model::ModelOptions options, Session* session) {
  if (session->ranks == nullptr) return model::Model::Load(*session->checkpoint, options);
  session->ranks->Lead(&options);
  auto made = model::Model::Load(*session->checkpoint, options);
  TW_TRY(session->ranks->Meet(made.status()));
  return made;
}

}  // namespace

std::vector<OptionRow> MachineOptionRows() { return engine::EngineOptions::MachineRows(); }

std::vector<OptionRow> ModelOptionRows() { return engine::EngineOptions::ModelRows(); }

std::vector<OptionRow> ReplayOptionRows(std::string_view fallback) {
  return engine::EngineOptions::ReplayRows(fallback);
}

Result<const kernels::Ops*> OpsFrom(const OptionValues& values) {
  const engine::EngineOptions options = engine::EngineOptions::ModelFrom(values);
  return kernels::FindBackend(
      {.name = options.backend, .numerics = options.numerics, .target = options.cpu_target});
}

base::Pinning PinningFrom(const OptionValues& values) {
  return engine::EngineOptions::ModelFrom(values).pinning;
}

Result<std::filesystem::path> ModelFolder(const OptionValues& values) {
  TW_ASSIGN(hub::HubOptions options, hub::HubOptions::From(values));
  options.progress = hub::TerminalProgress();
  options.interrupted = [] { return SignalCount() > 0; };
  return hub::FindModel(values.Text("model"), options);
}

Result<SessionOptions> SessionOptions::From(const OptionValues& values) {
  const engine::EngineOptions model = engine::EngineOptions::ModelFrom(values);
  TW_TRY(base::SetUpLog(model.log_level));
  TW_TRY(engine::EngineOptions::CheckHonoured(values));
  spdlog::info("options: {}", values.Describe());
  SessionOptions options;
  TW_ASSIGN(options.folder, ModelFolder(values));
  options.backend = model.backend;
  options.numerics = model.numerics;
  options.cpu_target = model.cpu_target;
  options.pinning = model.pinning;
  options.repack = model.repack;
  options.graphs = model.graphs;
  options.threads = model.threads;
  options.max_rows = model.max_rows;
  return options;
}

std::vector<int32_t> Session::EndTokens() const {
  std::vector<int32_t> out;
  for (const int64_t id : defaults.eos_token_ids) out.push_back(static_cast<int32_t>(id));
  if (out.empty()) out.push_back(static_cast<int32_t>(config().eos_token_id));
  return out;
}

Result<Session> OpenSession(const SessionOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  Progress progress("loading", 4);
  Session session;
  TW_ASSIGN(const kernels::Ops* named, kernels::FindBackend({.name = options.backend,
                                                             .numerics = options.numerics,
                                                             .target = options.cpu_target}));
  const kernels::Ops* ops = options.ops != nullptr ? options.ops : named;
  TW_ASSIGN(session.checkpoint, OpenCheckpoint(options));
  if (options.ranks.has_value()) {
    TW_ASSIGN(session.ranks, engine::ForwardRanks::Start(*options.ranks, *session.checkpoint));
  }
  const int threads = session.ranks != nullptr ? session.ranks->threads() : options.threads;
  session.team = std::make_unique<base::ThreadTeam>(threads, options.pinning);
  progress.Advance("tokenizer");
  TW_ASSIGN(text::Tokenizer tokenizer, text::Tokenizer::Load(options.folder / "tokenizer.json"));
  session.tokenizer = std::make_shared<const text::Tokenizer>(std::move(tokenizer));
  TW_ASSIGN(session.defaults, checkpoint::GenerationDefaults::Load(options.folder));
  progress.Advance("model");
  model::ModelOptions model_options;
  model_options.ops = ops;
  model_options.team = session.team.get();
  model_options.max_rows = options.max_rows;
  model_options.max_sequences = options.max_sequences;
  model_options.max_tokens = options.max_tokens;
  model_options.blocks_from_outside = options.blocks_from_outside;
  model_options.repack = options.repack;
  model_options.graphs = options.graphs;
  TW_ASSIGN(session.model, LoadModel(model_options, &session));
  progress.Advance("ready");
  spdlog::info("{} threads{}, {} MiB of weights repacked", session.team->size(),
               session.team->pinned() ? ", pinned" : "", session.model->packed_bytes() >> 20);
  session.team->PinCaller();
  session.load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return session;
}

Result<model::Replay> ReplayFrom(const OptionValues& values, const checkpoint::Config& config) {
  TW_ASSIGN(const model::ReplayMode mode, model::ParseReplayMode(values.Text("replay")));
  TW_TRY(engine::EngineOptions::CheckReplay(mode, values.OptionalInteger("keep-tokens")));
  return model::Replay::Make(mode, values.OptionalInteger("keep-tokens"), config);
}

}  // namespace thalweg::tools
