// Ranks for tests: threads, one for each.
#pragma once

#include <functional>

#include "comm/thread_group.h"

namespace thalweg::comm {

// Runs body(communicator) on every rank of a group; returns when all have returned. Defined in
// run_ranks_test.cc.
void RunRanks(int size, const std::function<void(Communicator&)>& body, Limits limits = {});

}  // namespace thalweg::comm
