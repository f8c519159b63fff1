#include "engine/ranks.h"

namespace thalweg::engine {
namespace {

constexpr comm::Milliseconds kForEver{std::chrono::hours(24 * 365)};

}  // namespace

Status MeetRanks(comm::Communicator* group, const Status& own) {
  if (!own.ok()) {
    group->Fail(own);
    return own;
  }
  return group->Barrier(kForEver);
}

Status RunRank(const EngineOptions& options, const checkpoint::Checkpoint& checkpoint,
               const Sizes& sizes, comm::Communicator* group, int ranks_here,
               const std::function<void(exec::ModelExecutor*)>& ready) {
  Result<RankModel> rank = MakeRank(options, checkpoint, sizes, group, ranks_here);
  if (rank.ok()) ready(rank->executor.get());
  TW_TRY(MeetRanks(group, rank.status()));
  rank->team->PinCaller();
  model::Model* model = &rank->executor->model();
  const exec::RankWork work{
      .executor = rank->executor.get(),
      .forward = [model] { return model->Idle(); },
      .placement = [](const std::string&) { return base::Unsupported("experts do not move"); }};
  return exec::FollowOrders(group, work);
}

}  // namespace thalweg::engine
