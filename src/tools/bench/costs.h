// `thalweg bench costs`: what the ops of a step cost here, as the file that `thalweg simulate`
// reads (src/sim/costs.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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
  int64_t steps = 16;                             // of each in a round
  // Microseconds of whole decode steps of so many rows and cached tokens, where somebody else has
  // measured them (an engine's, with all that is around the forward); empty: steps of the model
  // here, without the trace of its ops. Ops share a step out, and never add up to more than it.
  std::function<Result<std::vector<double>>(int64_t rows, int64_t context)> steps_us = {};
  // Before steps of so many rows and cached tokens are timed: what else shall run meanwhile.
  std::function<Status(int64_t rows, int64_t context)> beside = {};
};

// Room that a model needs for them.
int64_t CostsTokens(const CostsOptions& options);

// Costs from many small samples, of which medians count: an op that something disturbed now and
// then costs what it does otherwise, and rounds of samples may be taken in turns with what they are
// compared with. Ops are timed where a step leaves them: in turns with steps that are timed whole,
// in the order of the layers, on their own weights.
class CostsMeasurement {
 public:
  // `model` runs the ops of `trace`; both outlive this.
  CostsMeasurement(model::Model& model, OpTrace& trace, CostsOptions options);
  ~CostsMeasurement();

  // Decode steps at every batch and context, a round of samples more.
  Status Steps();
  // Steps of prompts through the encoder layers at position 0 and behind the longest context; then
  // costs have them.
  Status Prompts();
  // After at least one round.
  base::Json ToJson() const;

 private:
  class Measurement;
  std::unique_ptr<Measurement> measurement_;
};

// One round of all.
Result<base::Json> MeasureCosts(model::Model& model, OpTrace& trace, const CostsOptions& options);

Status BenchCostsCommand(const base::OptionValues& values);

}  // namespace thalweg::tools::bench
