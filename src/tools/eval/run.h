// Scores the items of a set with a bounded number of requests under way, and writes each score as
// it is known.
#pragma once

#include <thalweg/llm.h>

#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"
#include "tools/batch/result_file.h"
#include "tools/eval/item.h"

namespace thalweg::tools::eval {

struct EvalOptions {
  uint64_t seed = 0;            // of items without one, drawn from it and their line
  int64_t max_in_flight = 256;  // requests
  size_t limit = SIZE_MAX;      // only the first items
  double grace_seconds = 10;    // after a stop request, for what is under way
};

struct EvalProgress {
  int64_t done = 0;  // items, of earlier runs too
  int64_t total = 0;
  double seconds = 0;
};

struct EvalReport {
  int64_t scored = 0;     // by this run, errors among them
  int64_t abandoned = 0;  // items under way when it was stopped
  bool stopped = false;
};

// As of a batch (tools/batch/run.h): 0: go on; 1: begin no more; 2: abandon what is under way.
using StopRequests = std::function<int()>;

// Items that `results` has already are left out. Errors: results of another set, files that cannot
// be written, an engine that takes no requests. What the engine refuses or fails at is an error of
// its item.
Result<EvalReport> RunEval(LLM& llm, std::span<const Item> items, batch::ResultFile* results,
                           const EvalOptions& options, const StopRequests& stop,
                           const std::function<void(const EvalProgress&)>& progress);

}  // namespace thalweg::tools::eval
