#include "engine/ranks.h"

#include <fmt/format.h>

#include <thread>

#include "engine/expert_places.h"
#include "engine/rank_process.h"

namespace thalweg::engine {
namespace {

constexpr comm::Milliseconds kForEver{std::chrono::hours(24 * 365)};
constexpr comm::Milliseconds kOthersLetGo{1000};

}  // namespace

Status MeetRanks(comm::Communicator* group, const Status& own) {
  if (!own.ok()) {
    group->Fail(own);
    return own;
  }
  return group->Barrier(kForEver);
}

Result<RankModel> Ranks::Make(const EngineOptions& options,
                              const checkpoint::Checkpoint& checkpoint, const Sizes& sizes) {
  Begin(options, checkpoint, sizes);
  Result<RankModel> own = MakeRank(options, checkpoint, sizes, group(), ranks_here());
  TW_TRY(MeetRanks(group(), own.status()));
  return own;
}

Result<std::unique_ptr<Ranks>> OpenRanks(const EngineOptions& options) {
  RankProcess* process = RankProcess::Running();
  if (process == nullptr)
    return options.ranks == 1 && options.expert_counts.empty()
               ? nullptr
               : MakeRankThreads(static_cast<int>(options.ranks));
  if (options.ranks == 1) return MakeRankProcesses(process);
  return base::InvalidArgument(
      fmt::format("--ranks {} under mpirun, which started {} already: leave --ranks out",
                  options.ranks, process->world().size()));
}

Status RunRank(const EngineOptions& options, const checkpoint::Checkpoint& checkpoint,
               const Sizes& sizes, comm::Communicator* group, int ranks_here,
               const std::function<void(exec::ModelExecutor*)>& ready) {
  Result<RankModel> rank = MakeRank(options, checkpoint, sizes, group, ranks_here);
  if (rank.ok()) ready(rank->executor.get());
  TW_TRY(MeetRanks(group, rank.status()));
  rank->team->PinCaller();
  model::Model* model = &rank->executor->model();
  ExpertPlaces places(group, rank->experts.get(), rank->moves.get());
  const exec::RankWork work{
      .executor = rank->executor.get(),
      .forward = [model] { return model->Idle(); },
      .placement = [&places](const std::string& body) { return places.Follow(body); }};
  const Status status = exec::FollowOrders(group, work);
  // Memory of one rank ends when no GPU of the process is busy; that of another may wait for this
  // rank, until it hears of the loss.
  if (!status.ok() && rank->devices != nullptr) std::this_thread::sleep_for(kOthersLetGo);
  return status;
}

}  // namespace thalweg::engine
