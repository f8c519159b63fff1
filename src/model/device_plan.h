// What a device needs beside weights, caches and workspace.
#pragma once

#include <cstdint>

#include "checkpoint/config.h"
#include "kvpool/geometry.h"
#include "model/model.h"

namespace thalweg::model {

// Shapes that a device's kernels have no body for are an error here, before anything is allocated.
Status CheckDeviceLimits(const checkpoint::Config& config, const ModelOptions& options);

// An upper bound of the bytes: scratch memory of the widest op, lists of a step, logits and tokens
// of few rows, block tables, the sequence and block that fill up steps, and recordings. 0 where
// the memory is the host's.
int64_t DeviceWorkBytes(const checkpoint::Config& config, const ModelOptions& options,
                        const kvpool::Geometry& geometry, int64_t blocks);

}  // namespace thalweg::model
