// `thalweg bench model`: how fast a checkpoint prefills and decodes here.
#pragma once

#include <vector>

#include "model/replay.h"
#include "tools/session.h"

namespace thalweg::tools {

struct BenchModelOptions {
  int64_t prompt_tokens = 1024;
  int64_t decode_tokens = 128;
  std::vector<int64_t> batches = {1};  // sequences that decode together, a figure each
  int repeats = 3;
  bool json = false;
};

// Prints tok/s of prefill (one sequence, chunked) and of decode (a batch of sequences a step):
// medians of `repeats`, as a table or as a JSON array of bench::ModelFigure.
Status BenchModel(Session& session, const model::Replay& replay, const BenchModelOptions& options);

}  // namespace thalweg::tools
