// Ranks for tests: threads, one for each.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "comm/thread_group.h"

namespace thalweg::comm {

// Runs body(communicator) on every rank of a group; returns when all have returned.
inline void RunRanks(int size, const std::function<void(Communicator&)>& body, Limits limits = {}) {
  ThreadGroup group(size, limits);
  std::vector<std::jthread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&body, rank = group.Join(r)] { body(*rank); });
}

}  // namespace thalweg::comm
