// Weights brought to a device: every tensor once, matrices in the backend's layout where it has
// one.
#pragma once

#include "model/model.h"
#include "model/weights.h"
#include "tensor/buffer.h"

namespace thalweg::model {

// Copies what `weights` point at into the memory of options.ops and lets them point there.
// `others`: bytes that will be allocated beside. kResourceExhausted when the device has not enough.
Result<tensor::Buffer> UploadWeights(const checkpoint::Config& config, const ModelOptions& options,
                                     const tensor::Stream& stream, int64_t others,
                                     Weights* weights);

}  // namespace thalweg::model
