// Threads that make masks beside the executing thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace thalweg::engine {

// Something to be done once, by a worker or by whoever needs it first.
class MaskJob {
 public:
  virtual ~MaskJob() = default;
  // Does nothing when another thread has begun to.
  virtual void Work() = 0;
};

class MaskWorkers {
 public:
  // None: jobs are left to those who wait for them.
  explicit MaskWorkers(int threads);
  // Jobs that nobody has begun with are dropped.
  ~MaskWorkers();

  void Post(std::shared_ptr<MaskJob> job);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable wakes_;
  std::deque<std::shared_ptr<MaskJob>> queue_;
  int sleeping_ = 0;
  bool closing_ = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace thalweg::engine
