// What other threads finish, for the one thread that deals with it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace thalweg::tools {

template <typename T>
class Mailbox {
 public:
  void Put(T item) {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(item));
    arrived_.notify_one();
  }

  // What has come, after waiting for `turn` at most.
  std::deque<T> Take(std::chrono::milliseconds turn) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, turn, [this] { return !queue_.empty(); });
    return std::exchange(queue_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<T> queue_;
};

}  // namespace thalweg::tools
