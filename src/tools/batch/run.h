// Answers the lines of a file with a bounded number of requests under way, and writes each result
// as it comes.
#pragma once

#include <thalweg/llm.h>

#include <cstdint>
#include <filesystem>
#include <functional>

#include "base/json.h"
#include "base/status.h"
#include "tools/batch/result_file.h"

namespace thalweg::tools::batch {

struct BatchOptions {
  base::Json defaults = base::Json::object();  // sampling params of lines that leave them out
  uint64_t seed = 0;                           // SeedOfLine
  int64_t max_in_flight = 256;
  size_t max_line_bytes = 16u << 20;
  double grace_seconds = 10;  // after a stop request, for what is under way
  double sync_seconds = 1;    // results older than this survive a loss of power
};

// How far the run is; for its progress line.
struct BatchProgress {
  int64_t answered = 0;  // by this run
  int64_t under_way = 0;
  int64_t output_tokens = 0;
  double seconds = 0;
  double share = 0;           // of the input's bytes, in [0, 1]
  double share_at_start = 0;  // answered by earlier runs
};

struct BatchReport {
  int64_t lines = 0;    // of the input that were seen; empty ones do not count
  int64_t old = 0;      // of these: answered by an earlier run
  int64_t written = 0;  // results of this run, errors among them
  int64_t errors = 0;   // of all results in the file
  int64_t abandoned = 0;
  bool stopped = false;  // before the end of the input
};

// What the world outside says. 0: go on; 1: take no more lines and wait for the grace period;
// 2 or more: abandon what is under way.
using StopRequests = std::function<int()>;

// Errors: files that cannot be read or written, results that do not belong to this input, an engine
// that takes no requests. What is wrong with one line is the result of that line.
Result<BatchReport> RunBatch(LLM& llm, const std::filesystem::path& input, ResultFile* results,
                             const BatchOptions& options, const StopRequests& stop,
                             const std::function<void(const BatchProgress&)>& progress);

}  // namespace thalweg::tools::batch
