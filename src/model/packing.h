// Weights in the layout that the backend multiplies fastest, made once at load from the mapped file
// (kernels/ops.h, Ops::pack). Results have the same bits with and without it.
#pragma once

#include <cstdint>
#include <vector>

#include "model/expert_store.h"
#include "model/model.h"
#include "model/weights.h"
#include "tensor/large_buffer.h"

namespace thalweg::model {

// Every matrix of the target, and of the drafter when it was bound, in the order of the forward.
std::vector<Matrix*> Matrices(Weights* weights);

// Bytes of the packed form of every matrix of a config, the drafter's when `draft`; nothing is
// loaded. 0: the backend uses the stored form. `expert_blocks`: so many routed experts of the
// target's layers in place of all; 0: all.
int64_t PackedBytes(const checkpoint::Config& config, const kernels::Ops& ops, bool draft,
                    int64_t expert_blocks);

// Bytes of every tensor but those of the vision tower in the memory of a device backend, packed
// where the backend has a layout of its own; scales that it packs beside their codes are counted
// twice. `expert_blocks`: likewise.
int64_t UploadedBytes(const checkpoint::Config& config, const kernels::Ops& ops,
                      int64_t expert_blocks);

// Blocks that stay free beside the experts of this rank: as many as it has slots, and those of one
// layer more, which comes before the old one goes. `store` knows their size. 0: experts stay where
// they are, or are used as they are stored.
int64_t PlanFreeBlocks(const ModelOptions& options, const Weights& weights, ExpertStore* store);

// Whether `packed` bytes of weights and `others` of caches and workspace fit into `free` bytes
// (negative: not known) with an eighth and a quarter of a GiB to spare.
bool FitsInto(int64_t free, int64_t packed, int64_t others);

// Packs what `options` ask for and returns the memory that the matrices then point into; empty when
// nothing was packed. `others`: bytes that will be allocated beside. `store` gets the free blocks
// for experts that come later, where they may. Errors: Repack::kAlways and no memory for it.
Result<tensor::LargeBuffer> PackWeights(const ModelOptions& options, int64_t others,
                                        Weights* weights, ExpertStore* store);

}  // namespace thalweg::model
