// Weights brought to a device: every tensor once, matrices in the backend's layout where it has
// one.
#pragma once

#include <vector>

#include "model/expert_store.h"
#include "model/model.h"
#include "model/weights.h"
#include "tensor/buffer.h"
#include "tensor/pinned.h"

namespace thalweg::model {

struct UploadedWeights {
  tensor::Buffer device;
  // Tables of Engram that found no room there, where the device can read them.
  std::vector<tensor::Pinned> pinned;
};

// Copies what `weights` point at into the memory of options.ops and lets them point there.
// `others`: bytes that will be allocated beside. Where they do not fit, tables of Engram stay in
// pinned memory of the host, whose rows a device reads one by one. kResourceExhausted, with the
// numbers, when the rest does not fit either. `store` gets free blocks for experts that come later,
// where they may; those of other ranks have no stored form then, for a device could not read it.
Result<UploadedWeights> UploadWeights(const checkpoint::Config& config, const ModelOptions& options,
                                      const tensor::Stream& stream, int64_t others,
                                      Weights* weights, ExpertStore* store);

}  // namespace thalweg::model
