// What an answer, or none, means: done, try again, or give up with an error that says what to do.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "hub/hub.h"
#include "hub/transfer.h"

namespace thalweg::hub {

struct Verdict {
  enum class Kind { kDone, kRetry, kGiveUp };
  Kind kind = Kind::kDone;
  Status error = {};          // of kRetry and kGiveUp
  int64_t least_wait_ms = 0;  // of kRetry: what the server asked for
  bool start_over = false;    // of kRetry: what was kept cannot be continued (416)
};

// `what` is asked for, such as "config.json of org/name"; `has_token` changes the advice.
Verdict JudgeAnswer(const Transfer& transfer, const std::string& what, bool has_token);

// The wait before attempt number `attempt` (1: the first repetition), in milliseconds.
int64_t WaitBefore(int attempt, const Verdict& verdict, const RetryPolicy& policy);

}  // namespace thalweg::hub
