#include "engine/timed_executor.h"

#include <chrono>
#include <thread>

namespace thalweg::engine {
namespace {

constexpr int64_t kTokens = 1000;  // distinct ones

}  // namespace

void TimedExecutor::Execute(const step::StepPlan& plan, step::StepResult* result) {
  const double seconds = cost_(plan);
  for (const step::SequenceRows& rows : plan.rows) {
    step::SequenceResult& answer = result->sequences.emplace_back();
    answer.slot = rows.slot;
    answer.sequence = rows.sequence;
    answer.sampled = rows.sample;
    if (rows.sample) answer.token = static_cast<int32_t>((rows.start + rows.count) % kTokens);
  }
  if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace thalweg::engine
