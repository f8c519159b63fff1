// One step on its way: planned, executed, its events told. Jobs go round between the threads of
// the engine and keep the memory that they have.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "step/plan.h"

namespace thalweg::engine {

struct Job {
  step::StepPlan plan = {};
  step::StepResult result = {};
  double begin = 0, end = 0;  // of Execute, seconds since the engine started
};

// Jobs that nobody uses.
class JobPool {
 public:
  std::unique_ptr<Job> Get() {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) return std::make_unique<Job>();
    std::unique_ptr<Job> job = std::move(free_.back());
    free_.pop_back();
    return job;
  }
  void Put(std::unique_ptr<Job> job) {
    job->plan.Clear();
    const std::scoped_lock lock(mutex_);
    if (free_.size() < kKept) free_.push_back(std::move(job));
  }

 private:
  static constexpr size_t kKept = 16;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Job>> free_;
};

}  // namespace thalweg::engine
