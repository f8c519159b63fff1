// How many tokens and checkpoints the cache gets, within the memory that there is.
#pragma once

#include <cstdint>

#include "checkpoint/config.h"
#include "engine/options.h"
#include "model/model.h"

namespace thalweg::engine {

inline constexpr int64_t kBlockTokens = 64;

struct Sizes {
  int64_t context_tokens = 0;
  int64_t cache_tokens = 0;  // a multiple of kBlockTokens
  int64_t checkpoints = 0;
  model::MemoryPlan memory = {};  // with these sizes
};

// What the options leave open is chosen: the cache holds every sequence at full length where half
// of the free memory suffices for that, checkpoints take an eighth of it. kOutOfRange: a context
// beyond the model's. kResourceExhausted names what is needed and what is free. `model` names the
// backend; its sizes are filled in here. free_bytes < 0: not known.
Result<Sizes> ChooseSizes(const checkpoint::Config& config, const EngineOptions& options,
                          model::ModelOptions model, int64_t free_bytes);

// Bytes of the plan that must be free: mapped weights come and go with the page cache.
int64_t NeededBytes(const model::MemoryPlan& plan);

}  // namespace thalweg::engine
