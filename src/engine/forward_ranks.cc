#include "engine/forward_ranks.h"

#include <utility>

#include "engine/expert_places.h"
#include "engine/rank_process.h"
#include "engine/sizes.h"
#include "exec/rank_orders.h"

namespace thalweg::engine {

EngineOptions OptionsOfFollower(EngineOptions options) {
  options.max_rows = 1;
  options.max_sequences = 1;
  options.draft_tokens = 0;
  return options;
}

Sizes SizesOfFollower() {
  return {.context_tokens = kBlockTokens, .cache_tokens = kBlockTokens, .checkpoints = 0};
}

Result<std::unique_ptr<ForwardRanks>> ForwardRanks::Start(
    const EngineOptions& options, const checkpoint::Checkpoint& checkpoint) {
  TW_ASSIGN(std::unique_ptr<Ranks> ranks, OpenRanks(options));
  if (ranks == nullptr) return std::unique_ptr<ForwardRanks>();
  if (!ranks->one_process()) TW_TRY(AgreeOnCheckpoint(options, {}, &checkpoint));
  ranks->Begin(OptionsOfFollower(options), checkpoint, SizesOfFollower());
  std::unique_ptr<ForwardRanks> made(new ForwardRanks(options, std::move(ranks)));
  comm::Communicator* group = made->ranks_->group();
  TW_ASSIGN(const kernels::Ops* ops, FindOps(options));
  TW_ASSIGN(made->devices_, OpenDevices(*ops, group, made->ranks_->ranks_here()));
  Result<parallel::Placement> placement = FirstPlacement(options, checkpoint.config(), group);
  if (!placement.ok()) return made->Meet(placement.status());
  TW_ASSIGN(made->experts_,
            model::ExpertParallel::Make(group, std::move(*placement), made->devices_.get()));
  made->experts_->SetQueued(options.queued_steps);
  return made;
}

ForwardRanks::ForwardRanks(EngineOptions options, std::unique_ptr<Ranks> ranks)
    : options_(std::move(options)), ranks_(std::move(ranks)) {}

ForwardRanks::~ForwardRanks() {
  static_cast<void>(exec::SendOrders(ranks_->group(), exec::Order::kStop, {}));
}

void ForwardRanks::Lead(model::ModelOptions* model) {
  model->expert_parallel = experts_.get();
  model->before_step = [group = ranks_->group()] {
    return exec::SendOrders(group, exec::Order::kForward, {});
  };
}

int ForwardRanks::threads() const { return ThreadsOfRank(options_, ranks_->ranks_here()); }

}  // namespace thalweg::engine
