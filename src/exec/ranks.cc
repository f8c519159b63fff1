#include "exec/ranks.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "step/codec.h"
#include "step/parts.h"

namespace thalweg::exec {
namespace {

using comm::Communicator;
using step::StepPlan;
using step::StepResult;

Status RunStep(Communicator* group, Executor* executor, const std::string& body) {
  StepPlan plan;
  TW_TRY(step::DecodePlan(body, &plan));
  StepResult result;
  result.number = plan.number;
  executor->Execute(plan, &result);
  TW_TRY(group->Check());
  std::string answer;
  step::EncodeResult(result, &answer);
  return SendAnswer(group, answer);
}

Status Follow(Communicator* group, const RankWork& work, Order order, const std::string& body) {
  switch (order) {
    case Order::kStep: return RunStep(group, work.executor, body);
    case Order::kForward: return work.forward();
    case Order::kPlacement: return work.placement(body);
    case Order::kStop: break;
  }
  return {};
}

}  // namespace

RanksExecutor::RanksExecutor(std::unique_ptr<Executor> own, Communicator* group, int32_t slots,
                             std::unique_ptr<BetweenSteps> between)
    : own_(std::move(own)),
      group_(group),
      slots_(slots),
      between_(std::move(between)),
      parts_(static_cast<size_t>(group->size())),
      results_(parts_.size()),
      bodies_(parts_.size()),
      answers_(parts_.size()) {
  TW_CHECK_EQ(group->rank(), 0);
}

// Ranks that are lost are told nothing.
RanksExecutor::~RanksExecutor() {
  if (between_ != nullptr) between_->End();
  static_cast<void>(SendOrders(group_, Order::kStop, {}));
}

void RanksExecutor::Execute(const StepPlan& plan, StepResult* result) {
  result->Clear();
  result->number = plan.number;
  const Status status = Run(plan, result);
  if (status.ok()) return;
  group_->Fail(status);  // the others may be anywhere in the step
  result->Clear();
  result->status =
      base::FailedPrecondition(fmt::format("the ranks cannot go on: {}", status.message()));
}

Status RanksExecutor::Run(const StepPlan& plan, StepResult* result) {
  if (between_ != nullptr) TW_TRY(between_->Before(plan));
  TakeParts(plan);
  TW_TRY(SendOrders(group_, Order::kStep, bodies_));
  results_.front().number = plan.number;
  own_->Execute(parts_.front(), &results_.front());
  TW_TRY(group_->Check());
  TW_TRY(ReceiveAnswers(group_, &answers_));
  TW_TRY(Gather(result));
  if (between_ != nullptr) between_->After();
  return {};
}

void RanksExecutor::TakeParts(const StepPlan& plan) {
  for (size_t r = 0; r < parts_.size(); ++r) {
    step::TakePart(plan, static_cast<int32_t>(r) * slots_, slots_, &parts_[r]);
    if (r > 0) step::EncodePlan(parts_[r], &bodies_[r]);
  }
}

Status RanksExecutor::Gather(StepResult* result) {
  for (size_t r = 0; r < parts_.size(); ++r) {
    if (r > 0) {
      TW_TRY(step::DecodeResult(answers_[r], &results_[r]));
      TW_TRY(step::CheckResult(parts_[r], results_[r]));
    }
    step::AppendPartResult(parts_[r], std::exchange(results_[r], {}),
                           static_cast<int32_t>(r) * slots_, result);
  }
  return {};
}

Status FollowOrders(Communicator* group, const RankWork& work) {
  std::string body;
  while (true) {
    TW_ASSIGN(const Order order, ReceiveOrder(group, &body));
    if (order == Order::kStop) return {};
    const Status status = Follow(group, work, order, body);
    if (status.ok()) continue;
    group->Fail(status);
    return status;
  }
}

}  // namespace thalweg::exec
