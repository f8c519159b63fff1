// thalweg bench throughput and latency: an engine under an offered load.
#pragma once

#include <span>
#include <vector>

#include "base/options.h"
#include "engine/engine.h"
#include "tools/bench/load.h"
#include "tools/bench/report.h"

namespace thalweg::tools::bench {

// Sends the load and waits for every answer. Figures: tokens a second, percentiles of the time to
// the first token, between tokens and to the end, rows and sequences of a step, the share of prompt
// tokens that came from the cache, the scheduler's time, the share of time in which the executor
// was busy. The first request that fails is the error. answers, where wanted: tokens of each.
using Answers = std::vector<std::vector<int32_t>>;
Result<std::vector<Figure>> BenchServing(engine::Engine& engine, const LoadOptions& options,
                                         std::span<const LoadRequest> load,
                                         Answers* answers = nullptr);

enum class ServingKind { kThroughput, kLatency };

// The whole command: opens the engine that the options name, runs once for warmth, prints.
Status BenchServingCommand(ServingKind kind, const base::OptionValues& values);

}  // namespace thalweg::tools::bench
