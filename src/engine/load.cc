// From options to the parts of an engine: checkpoint, tokenizer, backend, sizes, executor.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "base/log.h"
#include "base/sha256.h"
#include "engine/drafts.h"
#include "engine/parts.h"
#include "engine/rank.h"
#include "engine/sizes.h"
#include "exec/model_executor.h"
#include "hub/hub.h"

namespace thalweg::engine {
namespace {

Result<std::filesystem::path> FindFolder(const EngineOptions& options,
                                         const std::function<bool()>& interrupted) {
  TW_ASSIGN(hub::HubOptions hub, hub::HubOptions::FromEnvironment());
  hub.revision = options.revision;
  hub.offline = hub.offline || options.offline;
  if (!options.model_dir.empty()) hub.model_dir = options.model_dir;
  if (!hub.progress) hub.progress = hub::TerminalProgress();
  hub.interrupted = interrupted;
  return hub::FindModel(options.model, hub);
}

Status GoOn(const std::function<bool()>& interrupted) {
  if (!interrupted || !interrupted()) return {};
  return base::FailedPrecondition("interrupted while the model was loaded: nothing has begun");
}

// Drafts come from the checkpoint's own module, one block at a time.
Status CheckDrafts(const EngineOptions& options, const checkpoint::Config& config) {
  if (options.draft_tokens == 0) return {};
  if (config.num_nextn_predict_layers == 0) {
    return base::FailedPrecondition(
        "--nextn needs a checkpoint with a draft module; this one has none: leave it out");
  }
  if (options.draft_tokens <= config.dspark_block_size) return {};
  return base::OutOfRange(fmt::format("--nextn is {}, but the draft module makes {} at a time",
                                      options.draft_tokens, config.dspark_block_size));
}

Status OpenCheckpoint(const std::filesystem::path& folder, Parts* parts) {
  checkpoint::LoadFilter filter;
  filter.draft = parts->options.draft_tokens > 0;
  filter.vision = false;
  TW_ASSIGN(checkpoint::Checkpoint opened, checkpoint::Checkpoint::Open(folder, filter));
  parts->checkpoint = std::make_unique<checkpoint::Checkpoint>(std::move(opened));
  TW_TRY(CheckDrafts(parts->options, parts->checkpoint->config()));
  TW_ASSIGN(text::Tokenizer tokenizer, text::Tokenizer::Load(folder / "tokenizer.json"));
  parts->tokenizer = std::make_shared<const text::Tokenizer>(std::move(tokenizer));
  return {};
}

Status FillIntake(const EngineOptions& options, Parts* parts) {
  const checkpoint::Config& config = parts->checkpoint->config();
  TW_ASSIGN(const auto defaults, checkpoint::GenerationDefaults::Load(parts->checkpoint->dir()));
  parts->defaults = defaults;
  IntakeOptions& intake = parts->intake;
  intake.vocab = config.vocab_size;
  for (const int64_t id : defaults.eos_token_ids)
    intake.end_tokens.push_back(static_cast<int32_t>(id));
  if (intake.end_tokens.empty())
    intake.end_tokens.push_back(static_cast<int32_t>(config.eos_token_id));
  TW_ASSIGN(const model::Replay replay,
            model::Replay::Make(options.replay, options.keep_tokens, config));
  intake.decoder_from = [replay, &config](int64_t prompt_tokens) {
    return replay.DecoderFrom(prompt_tokens, config);
  };
  return {};
}

// Whatever changes the bits of a cached row.
std::string CacheIdentity(const Parts& parts, const kernels::Ops& ops) {
  const std::string text =
      fmt::format("1 {} {} {} {} {}", checkpoint::ToJson(parts.checkpoint->config()),
                  parts.checkpoint->dir().string(), parts.checkpoint->total_bytes(),
                  static_cast<int>(parts.options.numerics), ops.name);
  return base::HexOf(base::Sha256Of(text));
}

// What the rank has, and the policy that options ask for.
sched::SchedulerOptions SchedulerOptionsOf(const EngineOptions& options, const Sizes& sizes,
                                           model::Model& model) {
  sched::SchedulerOptions out;
  out.context_tokens = sizes.context_tokens;
  DescribeRank(model, &out);
  out.checkpoint_interval_tokens = options.checkpoint_interval;
  out.prefix_reuse = options.prefix_reuse;
  out.exactness = options.exactness;
  out.admission_growth = options.admission_growth;
  out.overlap_depth = options.overlap;
  out.draft_tokens = options.draft_tokens;
  out.forced_tokens = ForcedTokens(options, model);
  out.preempt_every = options.preempt_every;
  return out;
}

void LogSizes(const Sizes& sizes, int64_t free_bytes) {
  const auto mib = [](int64_t bytes) { return bytes >> 20; };
  const model::MemoryPlan& plan = sizes.memory;
  spdlog::info(
      "memory in MiB: {} free; weights {} mapped, {} packed; cache of {} tokens {}; {} checkpoints "
      "{}; sequences {}; workspace {}; a device's own {}",
      mib(free_bytes), mib(plan.weights_mapped), mib(plan.packed_weights), sizes.cache_tokens,
      mib(plan.cache_blocks), sizes.checkpoints, mib(plan.checkpoints), mib(plan.sequence_slots),
      mib(plan.workspace), mib(plan.device_work));
}

// Sizes, the executor, and the scheduler's options, which must agree.
Status MakeExecutor(const EngineOptions& options, Parts* parts) {
  const checkpoint::Config& config = parts->checkpoint->config();
  TW_ASSIGN(const kernels::Ops* ops, kernels::FindBackend({.name = options.backend,
                                                           .numerics = options.numerics,
                                                           .target = options.cpu_target}));
  parts->team = std::make_unique<base::ThreadTeam>(options.threads, options.pinning);
  model::ModelOptions model;
  model.ops = ops;
  model.team = parts->team.get();
  model.max_rows = options.max_rows;
  model.max_sequences = options.max_sequences;
  model.repack = options.repack;
  model.graphs = options.graphs;
  if (!options.trace_file.empty()) {
    TW_ASSIGN(parts->timed_ops, exec::TimedOps::Make(*ops));
    model.ops = &parts->timed_ops->ops();
  }
  const int64_t free_bytes = ops->memory->free_bytes();
  TW_ASSIGN(const Sizes sizes, ChooseSizes(config, options, model, free_bytes));
  LogSizes(sizes, free_bytes);
  model.max_tokens = sizes.cache_tokens;
  model.checkpoints = sizes.checkpoints;
  TW_ASSIGN(auto executor, exec::ModelExecutor::Create(*parts->checkpoint, model));
  TW_ASSIGN(const exec::DraftOptions drafts, ChooseDrafts(options, CacheIdentity(*parts, *ops),
                                                          *parts->checkpoint, &executor->model()));
  TW_TRY(executor->SetDrafts(drafts));
  exec::ModelExecutor* host = executor.get();
  parts->processors = {
      .add =
          [host](const std::string& name, LogitsProcessor processor) {
            host->RegisterProcessor(name, std::move(processor));
          },
      .remove = [host](const std::string& name) { host->UnregisterProcessor(name); }};
  parts->set_token_masks = [host](exec::FindTokenMasks find) {
    host->SetTokenMasks(std::move(find));
  };
  parts->scheduler = SchedulerOptionsOf(options, sizes, host->model());
  parts->executor = std::move(executor);
  parts->scheduler.cache_identity = CacheIdentity(*parts, *ops);
  return {};
}

}  // namespace

Result<Parts> LoadParts(const EngineOptions& options, const std::function<bool()>& interrupted) {
  TW_TRY(options.Check());
  TW_TRY(base::SetUpLog(options.log_level));
  spdlog::info("options: {}", options.Describe());
  Parts parts;
  parts.options = options;
  TW_ASSIGN(const std::filesystem::path folder, FindFolder(options, interrupted));
  TW_TRY(OpenCheckpoint(folder, &parts));
  TW_TRY(FillIntake(options, &parts));
  TW_TRY(GoOn(interrupted));
  TW_TRY(MakeExecutor(options, &parts));
  TW_TRY(GoOn(interrupted));
  return parts;
}

}  // namespace thalweg::engine
