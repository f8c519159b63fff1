// Ranks that are threads of this process: one checkpoint, mapped once; a team, a model and caches
// for each.
#include <spdlog/spdlog.h>

#include <thread>
#include <utility>

#include "comm/thread_group.h"
#include "engine/ranks.h"

namespace thalweg::engine {
namespace {

class RankThreads : public Ranks {
 public:
  explicit RankThreads(int ranks) : group_(ranks), executors_(static_cast<size_t>(ranks) - 1) {
    for (int r = 0; r < ranks; ++r) ends_.push_back(group_.Join(r));
  }

  void Begin(const EngineOptions& options, const checkpoint::Checkpoint& checkpoint,
             const Sizes& sizes) override {
    for (size_t i = 0; i < executors_.size(); ++i)
      threads_.emplace_back(
          [this, i, options, &checkpoint, sizes] { Run(i, options, checkpoint, sizes); });
  }
  comm::Communicator* group() override { return ends_.front().get(); }
  std::vector<exec::ModelExecutor*> others() override { return executors_; }
  bool one_process() const override { return true; }
  int ranks_here() const override { return static_cast<int>(ends_.size()); }

 private:
  void Run(size_t other, const EngineOptions& options, const checkpoint::Checkpoint& checkpoint,
           const Sizes& sizes) {
    const Status status =
        RunRank(options, checkpoint, sizes, ends_[other + 1].get(), ranks_here(),
                [this, other](exec::ModelExecutor* made) { executors_[other] = made; });
    if (!status.ok()) spdlog::debug("rank {}: {}", other + 1, status.ToString());  // rank 0 says it
  }

  comm::ThreadGroup group_;
  std::vector<std::unique_ptr<comm::Communicator>> ends_;
  std::vector<exec::ModelExecutor*> executors_;  // of the others; written before they meet
  std::vector<std::jthread> threads_;            // last: they use all of the above
};

}  // namespace

std::unique_ptr<Ranks> MakeRankThreads(int ranks) { return std::make_unique<RankThreads>(ranks); }

}  // namespace thalweg::engine
