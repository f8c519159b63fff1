// `thalweg bench costs`: what the ops of a step cost here, as the file that `thalweg simulate`
// reads (src/sim/costs.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/options.h"
#include "base/status.h"
#include "model/model.h"
#include "tools/bench/trace.h"

namespace thalweg::tools::bench {

struct CostsOptions {
  std::string source = {};                        // for people: machine and options
  std::vector<int64_t> batches = {1, 4, 16, 64};  // rows of decode steps
  std::vector<int64_t> contexts = {1024};         // cached tokens before them
  std::vector<int64_t> chunks = {64, 256, 512};   // rows of steps of prompts, ascending
  int64_t steps = 16;                             // of each; the fastest counts
  // Microseconds of a whole decode step of so many rows and cached tokens, where somebody else has
  // measured them (an engine's, with all that is around the forward); empty: steps of the model
  // here, without the trace of its ops. Ops share a step out, and never add up to more than it.
  std::function<Result<double>(int64_t rows, int64_t context)> step_us = {};
};

// Room that a model needs for them.
int64_t CostsTokens(const CostsOptions& options);

// Times decode steps for every batch and context, and steps of prompts through the encoder layers
// at position 0 and behind the longest context. Ops are timed where a step leaves them: in turns
// with steps that are timed whole, in the order of the layers, on their own weights. `model` runs
// the ops of `trace`.
Result<base::Json> MeasureCosts(model::Model& model, OpTrace& trace, const CostsOptions& options);

Status BenchCostsCommand(const base::OptionValues& values);

}  // namespace thalweg::tools::bench
