#include "engine/timed_executor.h"

#include <algorithm>
#include <thread>

namespace thalweg::engine {
namespace {

constexpr int64_t kTokens = 1000;  // distinct ones

}  // namespace

bool TimedExecutor::Launch(const step::StepPlan& plan) {
  const std::chrono::duration<double> cost(cost_(plan));
  const auto begin = ends_.empty() ? Clock::now() : std::max(Clock::now(), ends_.back());
  ends_.push_back(begin + std::chrono::duration_cast<Clock::duration>(cost));
  return true;
}

void TimedExecutor::Execute(const step::StepPlan& plan, step::StepResult* result) {
  if (ends_.empty()) Launch(plan);
  for (const step::SequenceRows& rows : plan.rows) {
    step::SequenceResult& answer = result->sequences.emplace_back();
    answer.slot = rows.slot;
    answer.sequence = rows.sequence;
    const auto token = static_cast<int32_t>((rows.start + rows.count) % kTokens);
    if (rows.sample) result->Append(&answer, {.token = token});
  }
  std::this_thread::sleep_until(ends_.front());
  ends_.pop_front();
}

}  // namespace thalweg::engine
