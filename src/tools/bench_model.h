// `thalweg bench model`: how fast a checkpoint prefills and decodes here.
#pragma once

#include "model/replay.h"
#include "tools/session.h"

namespace thalweg::tools {

struct BenchModelOptions {
  int64_t prompt_tokens = 1024;
  int64_t decode_tokens = 128;
  int64_t batch = 1;  // sequences that decode together
  int repeats = 3;
  bool json = false;
};

// Prints tok/s of prefill (one sequence, chunked) and of decode (`batch` sequences a step): medians
// of `repeats`.

Status BenchModel(Session& session, const model::Replay& replay, const BenchModelOptions& options);

}  // namespace thalweg::tools
