#include "comm/beat.h"

#include <condition_variable>
#include <mutex>

namespace thalweg::comm {

void BeatUntilStopped(const std::stop_token& stop, Communicator* communicator) {
  std::mutex mutex;
  std::condition_variable_any asleep;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    communicator->Beat();
    asleep.wait_for(lock, stop, communicator->limits().period, [] { return false; });
  }
}

}  // namespace thalweg::comm
