// Ranks that work beside one that is measured.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "base/status.h"
#include "base/thread_team.h"
#include "checkpoint/checkpoint.h"
#include "comm/thread_group.h"
#include "kernels/ops.h"
#include "model/expert_parallel.h"
#include "model/model.h"

namespace thalweg::tools::bench {

// A model on one thread, which exchanges rows with itself or (without `exchange`) with nobody.
struct LoneRank {
  std::unique_ptr<base::ThreadTeam> team = {};
  std::unique_ptr<comm::Communicator> self = {};
  std::unique_ptr<model::ExpertParallel> experts = {};
  std::unique_ptr<model::Model> model = {};

  // Sizes are those of `options`, which this fills in. `ops` and the checkpoint outlive it.
  static Result<LoneRank> Make(const checkpoint::Checkpoint& checkpoint, const kernels::Ops& ops,
                               model::ModelOptions options, bool exchange);
};

// Decodes on a thread of its own, step after step, until it is told otherwise.
class Neighbour {
 public:
  explicit Neighbour(LoneRank rank);
  ~Neighbour();

  // So many sequences behind so many tokens; returns when it has begun, or has failed.
  Status Decode(int64_t rows, int64_t context);
  // Returns when it does nothing more.
  Status Rest();

 private:
  struct Load {
    int64_t rows = 0;  // 0: rests
    int64_t context = 0;
    bool operator==(const Load&) const = default;
  };

  Status Do(const Load& load);
  void Live(const std::stop_token& stop);
  Status Repeat(const Load& load, const std::stop_token& stop);
  bool Wanted(const Load& load);
  void Tell(const Load& load, const Status& status);

  LoneRank rank_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  Load wanted_, does_;
  Status status_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace thalweg::tools::bench
