#include "engine/timed_executor.h"

#include <thread>

namespace thalweg::engine {
namespace {

constexpr int64_t kTokens = 1000;  // distinct ones

}  // namespace

bool TimedExecutor::Launch(const step::StepPlan& /*plan*/) {
  launched_ = Clock::now();
  return true;
}

void TimedExecutor::Execute(const step::StepPlan& plan, step::StepResult* result) {
  const auto begin = launched_.value_or(Clock::now());
  launched_.reset();
  const std::chrono::duration<double> cost(cost_(plan));
  for (const step::SequenceRows& rows : plan.rows) {
    step::SequenceResult& answer = result->sequences.emplace_back();
    answer.slot = rows.slot;
    answer.sequence = rows.sequence;
    const auto token = static_cast<int32_t>((rows.start + rows.count) % kTokens);
    if (rows.sample) result->Append(&answer, {.token = token});
  }
  std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(cost));
}

}  // namespace thalweg::engine
