// Plans of several ranks (step/parts.h): rank 0 hands the parts out and runs its own, the others
// run theirs. Every rank goes through every forward, for the experts of a layer are joined; a rank
// without rows goes through it with none (spec/decoding.md 7.1).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "exec/executor.h"
#include "exec/rank_orders.h"

namespace thalweg::exec {

// What rank 0 does beside steps, on the thread that executes them. It may give orders then.
class BetweenSteps {
 public:
  virtual ~BetweenSteps() = default;
  // An error is one of the step, and breaks the group.
  virtual Status Before(const step::StepPlan& plan) = 0;
  virtual void After() = 0;
  // Before the others are told to stop.
  virtual void End() = 0;
};

// Rank 0's executor for the engine. Its plans hold the parts of all ranks.
class RanksExecutor : public Executor {
 public:
  // `own` runs rank 0's parts. `slots` of every rank. `between` may be null. The group outlives
  // this; nobody else uses it while a plan executes.
  RanksExecutor(std::unique_ptr<Executor> own, comm::Communicator* group, int32_t slots,
                std::unique_ptr<BetweenSteps> between = nullptr);
  // Tells the others to stop.
  ~RanksExecutor() override;

  // A lost rank is an error of this step and of all that follow: kFailedPrecondition, for it says
  // nothing about what was asked.
  void Execute(const step::StepPlan& plan, step::StepResult* result) override;

 private:
  Status Run(const step::StepPlan& plan, step::StepResult* result);
  void TakeParts(const step::StepPlan& plan);
  Status Gather(step::StepResult* result);

  std::unique_ptr<Executor> own_;
  comm::Communicator* group_;
  int32_t slots_;
  std::unique_ptr<BetweenSteps> between_;
  // By rank; they keep their memory.
  std::vector<step::StepPlan> parts_;
  std::vector<step::StepResult> results_;
  std::vector<std::string> bodies_, answers_;
};

// What another rank does with orders.
struct RankWork {
  Executor* executor = nullptr;
  std::function<Status()> forward = {};                           // Order::kForward
  std::function<Status(const std::string& body)> placement = {};  // Order::kPlacement
};

// The life of another rank: takes orders until it is told to stop (ok), or the group breaks. An
// order that cannot be followed breaks the group.
Status FollowOrders(comm::Communicator* group, const RankWork& work);

}  // namespace thalweg::exec
