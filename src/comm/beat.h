// The body of a thread that beats for a rank. The thread is started above and handed in.
#pragma once

#include <stop_token>

#include "comm/communicator.h"

namespace thalweg::comm {

// Beats every limits().period until a stop is asked for.
void BeatUntilStopped(const std::stop_token& stop, Communicator* communicator);

}  // namespace thalweg::comm
