// The bodies of the CUDA backend, one per entry of Ops. Each puts its kernels on the stream's queue
// and returns; lists in host memory are staged first (queue.h), so they may be reused at once.
#pragma once

#include "kernels/ops.h"

namespace thalweg::kernels::cuda {

void Embed(const EmbedParams& p);
void HyperFinish(const HyperFinishParams& p);
void HyperPredict(const HyperPredictParams& p);
void Collapse(const CollapseParams& p);
void Tap(const TapParams& p);
void Linear(const LinearParams& p);
void GroupedLinear(const GroupedLinearParams& p);
void Norm(const NormParams& p);
void WindowRows(const WindowRowsParams& p);
void Pool(const PoolParams& p);
void StoreRows(const StoreRowsParams& p);
void IndexSelect(const IndexSelectParams& p);
void Attention(const AttentionParams& p);
void Gate(const GateParams& p);
void Experts(const ExpertsParams& p);
void EngramGather(const EngramGatherParams& p);
void EngramHash(const EngramHashParams& p);
void EngramGate(const EngramGateParams& p);
void Markov(const MarkovParams& p);
void Choose(const ChooseParams& p);
void Accept(const AcceptParams& p);
void Advance(const AdvanceParams& p);
void CopyRows(const CopyRowsParams& p);
void CompactRows(const CompactRowsParams& p);

int64_t PackedBytes(const Matrix& matrix);
void Pack(const Stream& stream, const Matrix& matrix, void* out);

// Of fast numerics: fp4 and fp8 weights that meet quantised rows stay codes (codes.cuh).
void LinearFast(const LinearParams& p);
void ExpertsFast(const ExpertsParams& p);
int64_t PackedBytesFast(const Matrix& matrix);
void PackFast(const Stream& stream, const Matrix& matrix, void* out);

// z = W x in fp32 into out_f32 [rows, w.rows]: the product of Linear, for ops that go on with it.
// x is [rows, x_stride] bf16 in device memory, of which the first w.cols of each row count. Takes
// its scratch from Queue::kProductSlot, as Linear does.
void Product(const Stream& stream, const Matrix& w, const BF16* x, int64_t x_stride, int64_t rows,
             float* out_f32);

}  // namespace thalweg::kernels::cuda
