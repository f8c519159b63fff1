#include "engine/mask_workers.h"

#include <utility>

namespace thalweg::engine {

MaskWorkers::MaskWorkers(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

MaskWorkers::~MaskWorkers() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  wakes_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void MaskWorkers::Post(std::shared_ptr<MaskJob> job) {
  if (threads_.empty()) return;
  bool wake = false;
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(job));
    wake = sleeping_ > 0;
  }
  if (wake) wakes_.notify_one();
}

void MaskWorkers::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++sleeping_;
    wakes_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    --sleeping_;
    if (closing_) return;
    const std::shared_ptr<MaskJob> job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    job->Work();
    lock.lock();
  }
}

}  // namespace thalweg::engine
