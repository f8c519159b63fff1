// Ranks that are threads of one process. The group starts none: each thread takes its end and keeps
// it.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace thalweg::comm {

class ThreadGroup {
 public:
  // Threads need no beat: limits.silence is not used.
  explicit ThreadGroup(int size, Limits limits = {});
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;
  ~ThreadGroup();

  // The end of one rank, once for each. It may outlive the group.
  std::unique_ptr<Communicator> Join(int rank);

  struct Shared;

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace thalweg::comm
