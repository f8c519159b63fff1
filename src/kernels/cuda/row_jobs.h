// Work on single rows that ops hold back, so that one launch does what several ops ask for: a block
// each for rows' coefficients, norms, window rows, choices of experts and copies. A queue launches
// what it holds before anything else, but for products that have nothing to do with it
// (BesideHeld).
#pragma once

#include "kernels/cuda/experts.h"
#include "kernels/cuda/launch.h"
#include "kernels/ops.h"

namespace thalweg::kernels::cuda {

// Rows to normalise (with a weight), rotate and encode.
struct EncodeJob {
  const BF16* x = nullptr;  // [rows, width]
  int64_t width = 0;
  const BF16* norm_weight = nullptr;
  float eps = 0;
  DeviceRotation rotation;
  RowFormat format = RowFormat::kBF16;
  uint8_t* out = nullptr;  // [rows, row_bytes], or each row has its own place:
  int64_t row_bytes = 0;
  uint8_t* const* destination = nullptr;
};

// out = bf16(sum over the row's experts in ascending order, then the shared one).
struct CombineJob {
  const BF16* y = nullptr;  // [rows * topk + rows, hidden]
  int64_t rows = 0, topk = 0, hidden = 0;
  BF16* out = nullptr;  // [rows, hidden]
};

// Jobs without rows are none. All of them may run at once.
struct HeldJobs {
  HyperFinishParams finish;         // behind the others
  HyperPredictParams coefficients;  // of which partial sums are there
  const float* partial = nullptr;
  unsigned* readers = nullptr;  // counter that is set back with the coefficients
  NormParams norm;
  EncodeJob window;
  int64_t window_rows = 0;
  GateParams choose;
  const float* products = nullptr;  // [rows, experts] of the router
  ExpertListJob list;               // of what is chosen; the block that chooses makes it
  CombineJob combine;               // in front of finish
  CopyRowsParams copies;

  // Work that products neither read nor write anything of.
  bool apart() const { return coefficients.rows > 0 || copies.count > 0; }
  bool in_the_way() const {
    return combine.rows > 0 || finish.rows > 0 || norm.rows > 0 || window_rows > 0 ||
           choose.rows > 0;
  }
  bool any() const { return apart() || in_the_way(); }
};

void LaunchJobs(Queue* queue, const HeldJobs& jobs);
// hyper.cu
void LaunchFinish(Queue* queue, const HyperFinishParams& p);

}  // namespace thalweg::kernels::cuda
