// A model of released layer sizes whose weights are made up in memory: what `thalweg bench model
// --synthetic` runs whole steps on where the released weights do not fit.
#pragma once

#include <memory>

#include "base/status.h"
#include "model/model.h"
#include "model/weights.h"
#include "tools/bench/memory.h"

namespace thalweg::tools::bench {

struct SyntheticPlan {
  checkpoint::Config config;  // few layers, few experts; no Engram or vision
  int64_t weight_bytes = 0;   // of the stored forms
};

// `layers` layers (1..40) of the sizes of `base` in the released mix of modes: windows only, full
// owners of either ratio, reindexing and reusing ones; with as many experts each as fit into
// `memory_bytes` beside the rest, at most those of `base`. `experts` > 0 asks for so many. With
// `draft` there is a draft module too, whose taps are the last layers. An error says what is the
// most that fits.
Result<SyntheticPlan> PlanSynthetic(const checkpoint::Config& base, int64_t layers, int64_t experts,
                                    int64_t memory_bytes, bool draft = false);

// Token ids of the bench are below this: rows of the embedding that exist. All of them, where
// drafts are made.
int64_t SyntheticTokens(const checkpoint::Config& config);

// Random weights in `memory`, which is the backend's, packed where it packs.
model::Weights MakeSyntheticWeights(const checkpoint::Config& config, const kernels::Ops& ops,
                                    const tensor::Stream& stream, Memory* memory);

// Opens a sequence whose caches hold `tokens` tokens of random rows in every layer, as if they had
// been prefilled, and reserves room for `more`.
Result<kvpool::SequenceId> OpenFilled(model::Model& model, int64_t tokens, int64_t more);

}  // namespace thalweg::tools::bench
