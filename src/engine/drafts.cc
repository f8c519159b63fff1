#include "engine/drafts.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <fstream>

#include "base/env.h"
#include "engine/draft_calibration.h"
#include "exec/draft_costs.h"
#include "kernels/backends.h"

namespace thalweg::engine {
namespace {

// The first processor's name.
std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor";
}

// Of the backend with these bodies; the host has none.
std::string DeviceName(const kernels::Ops& ops) {
  if (ops.memory->host) return "no device";
  for (const kernels::BackendInfo& backend : kernels::Backends()) {
    if (backend.ops != nullptr && backend.ops->memory == ops.memory) return backend.target;
  }
  return "a device";
}

std::string HardwareOf(const model::Model& model) {
  const model::ModelOptions& o = model.options();
  return fmt::format("{}; {}; {}; {} threads", o.ops->name, DeviceName(*o.ops), ProcessorName(),
                     o.team->size());
}

std::string OptionsOf(const EngineOptions& options, std::string_view identity,
                      const model::Model& model) {
  const model::ModelOptions& o = model.options();
  return fmt::format("{} packed {} sequences {} rows {} drafts {}{}", identity,
                     model.packed_bytes() > 0, o.max_sequences, o.max_rows, options.draft_tokens,
                     options.draft_varlen ? " by confidence" : "");
}

Result<spec::CostProfile> Measure(const EngineOptions& options, const std::string& hardware,
                                  const std::string& what, model::Model* model) {
  TW_ASSIGN(spec::CostProfile profile,
            exec::MeasureCosts(model, options.draft_tokens, options.draft_varlen));
  profile.hardware = hardware;
  profile.options = what;
  return profile;
}

}  // namespace

std::filesystem::path CostFolder() {
  if (const auto cache = base::ReadEnvironment("XDG_CACHE_HOME"))
    return std::filesystem::path(*cache) / "thalweg" / "costs";
  if (const auto home = base::ReadEnvironment("HOME"))
    return std::filesystem::path(*home) / ".cache" / "thalweg" / "costs";
  return {};
}

// As many as may be taken back. A device that launches steps ahead would lose more by waiting for
// the text than it saves.
int64_t ForcedTokens(const EngineOptions& options, const model::Model& model) {
  if (!options.forced_drafts || !model.options().ops->memory->host) return 0;
  return model::RollbackTokens(model.config()) - 1;
}

Result<exec::DraftOptions> ChooseDrafts(const EngineOptions& options, std::string_view identity,
                                        const checkpoint::Checkpoint& checkpoint,
                                        model::Model* model) {
  exec::DraftOptions out = {.drafts = options.draft_tokens,
                            .forced = ForcedTokens(options, *model) > 0,
                            .always = !options.draft_costs,
                            .variable = options.draft_varlen};
  if (out.drafts == 0 || !options.draft_costs) return out;
  TW_ASSIGN(out.temperatures, FindTemperatures(options.draft_calibration, checkpoint));
  const std::string hardware = HardwareOf(*model), what = OptionsOf(options, identity, *model);
  const std::filesystem::path folder = CostFolder();
  auto kept = folder.empty() ? base::NotFound("no folder for cost files")
                             : spec::ReadCostProfile(folder, hardware, what);
  if (kept.ok()) {
    out.costs = std::move(*kept);
    return out;
  }
  if (kept.status().code() != base::Code::kNotFound)
    spdlog::warn("costs of steps are measured anew: {}", kept.status().message());
  TW_ASSIGN(out.costs, Measure(options, hardware, what, model));
  if (folder.empty()) return out;
  std::error_code ignored;  // a folder that cannot be made cannot be written to either
  std::filesystem::create_directories(folder, ignored);
  const Status written = spec::WriteCostProfile(folder, *out.costs);
  if (!written.ok()) spdlog::warn("costs of steps are not kept: {}", written.message());
  return out;
}

}  // namespace thalweg::engine
