// From options to the parts of an engine: checkpoint, tokenizer, backend, sizes, executor.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "base/log.h"
#include "engine/drafts.h"
#include "engine/forward_ranks.h"
#include "engine/parts.h"
#include "engine/rank.h"
#include "engine/rank_model.h"
#include "engine/rank_process.h"
#include "engine/ranks.h"
#include "engine/sizes.h"
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

// Custom processors and masks are of this process: every rank in it knows them.
void AddHooks(exec::ModelExecutor* own, Parts* parts) {
  std::vector<exec::ModelExecutor*> hosts = {own};
  if (parts->ranks != nullptr)
    for (exec::ModelExecutor* other : parts->ranks->others()) hosts.push_back(other);
  parts->processors = {.add =
                           [hosts](const std::string& name, const LogitsProcessor& processor) {
                             for (exec::ModelExecutor* host : hosts)
                               host->RegisterProcessor(name, processor);
                           },
                       .remove =
                           [hosts](const std::string& name) {
                             for (exec::ModelExecutor* host : hosts)
                               host->UnregisterProcessor(name);
                           }};
  parts->set_token_masks = [hosts](const exec::FindTokenMasks& find) {
    for (exec::ModelExecutor* host : hosts) host->SetTokenMasks(find);
  };
}

// Ranks of several processes have opened the same, and have the same sizes.
Result<Sizes> ChooseSizesOfRanks(const EngineOptions& options, const Parts& parts) {
  TW_ASSIGN(const kernels::Ops* ops, FindOps(options));
  const int ranks_here = parts.ranks == nullptr ? 1 : parts.ranks->ranks_here();
  const int ranks = parts.ranks == nullptr ? 1 : parts.ranks->group()->size();
  Result<Sizes> sizes = SizesOfRank(options, parts.checkpoint->config(), *ops, ranks_here, ranks);
  if (parts.ranks == nullptr || parts.ranks->one_process()) return sizes;
  TW_TRY(MeetRanks(parts.ranks->group(), sizes.status()));
  TW_TRY(AgreeOnSizes(parts.ranks->group(), &*sizes));
  return sizes;
}

Result<RankModel> MakeFirstRank(const EngineOptions& options, const Sizes& sizes, Parts* parts) {
  if (parts->ranks == nullptr) return MakeRank(options, *parts->checkpoint, sizes, nullptr, 1);
  return parts->ranks->Make(options, *parts->checkpoint, sizes);
}

// Rank 0's executor hands parts of its steps to the others.
void LeadRanks(const EngineOptions& options, Parts* parts) {
  comm::Communicator* group = parts->ranks->group();
  parts->scheduler.ranks = group->size();
  parts->scheduler.local_only_on_first = !parts->ranks->one_process();
  auto rebalancer = std::make_unique<Rebalancer>(
      group, ExpertPlaces(group, parts->experts.get(), parts->moves.get()),
      RebalanceOptions{.window_rows = options.rebalance_window,
                       .counts = options.expert_counts,
                       .step_bytes = options.rebalance_bytes,
                       .rules = {.least_rows = 1}});
  parts->rebalancer = rebalancer.get();
  parts->executor = std::make_unique<exec::RanksExecutor>(
      std::move(parts->executor), group, static_cast<int32_t>(parts->scheduler.max_sequences),
      std::move(rebalancer));
}

// Sizes, the executor, and the scheduler's options, which must agree.
Status MakeExecutor(const EngineOptions& options, Parts* parts) {
  TW_ASSIGN(const kernels::Ops* ops, FindOps(options));
  TW_ASSIGN(const Sizes sizes, ChooseSizesOfRanks(options, *parts));
  TW_ASSIGN(RankModel rank, MakeFirstRank(options, sizes, parts));
  AddHooks(rank.executor.get(), parts);
  parts->scheduler = SchedulerOptionsOf(options, sizes, rank.executor->model());
  parts->scheduler.cache_identity = CacheIdentity(options, *parts->checkpoint, *ops);
  parts->team = std::move(rank.team);
  parts->timed_ops = std::move(rank.timed_ops);
  parts->devices = std::move(rank.devices);
  parts->experts = std::move(rank.experts);
  parts->moves = std::move(rank.moves);
  parts->context = std::move(rank.context);
  parts->executor = std::move(rank.executor);
  if (parts->ranks != nullptr) LeadRanks(options, parts);
  return {};
}

}  // namespace

// Everything but the model.
static Status Open(const EngineOptions& options, const std::function<bool()>& interrupted,
                   Parts* parts) {
  TW_TRY(options.Check());
  TW_TRY(base::SetUpLog(options.log_level));
  spdlog::info("options: {}", options.Describe());
  parts->options = options;
  TW_ASSIGN(parts->ranks, OpenRanks(options));
  TW_ASSIGN(const std::filesystem::path folder, FindFolder(options, interrupted));
  TW_TRY(OpenCheckpoint(folder, parts));
  TW_TRY(FillIntake(options, parts));
  return GoOn(interrupted);
}

// The same where several processes do it: all go on, or none.
static Status OpenTogether(const EngineOptions& options, const std::function<bool()>& interrupted,
                           Parts* parts) {
  const Status opened = Open(options, interrupted, parts);
  if (RankProcess::Running() == nullptr) return opened;
  return AgreeOnCheckpoint(options, opened, parts->checkpoint.get());
}

Result<Parts> LoadParts(const EngineOptions& options, const std::function<bool()>& interrupted) {
  Parts parts;
  TW_TRY(OpenTogether(options, interrupted, &parts));
  TW_TRY(MakeExecutor(options, &parts));
  TW_TRY(GoOn(interrupted));
  return parts;
}

Status RankProcess::Follow(const EngineOptions& options) {
  Parts parts;
  TW_TRY(OpenTogether(options, {}, &parts));
  TW_ASSIGN(const Sizes sizes, ChooseSizesOfRanks(options, parts));
  return RunRank(options, *parts.checkpoint, sizes, &world(), ranks_here(),
                 [](exec::ModelExecutor*) {});
}

Status RankProcess::FollowForwards(const EngineOptions& options) {
  Parts parts;
  TW_TRY(OpenTogether(options, {}, &parts));
  return RunRank(OptionsOfFollower(options), *parts.checkpoint, SizesOfFollower(), &world(),
                 ranks_here(), [](exec::ModelExecutor*) {});
}

}  // namespace thalweg::engine
