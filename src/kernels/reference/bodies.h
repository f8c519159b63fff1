// The reference bodies, one per entry of Ops.
#pragma once

#include "kernels/ops.h"

namespace thalweg::kernels::reference {

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
void CopyRows(const CopyRowsParams& p);
void CompactRows(const CompactRowsParams& p);
void StoreRows(const StoreRowsParams& p);
void IndexSelect(const IndexSelectParams& p);
void Attention(const AttentionParams& p);
void Gate(const GateParams& p);
void Experts(const ExpertsParams& p);
void EngramGather(const EngramGatherParams& p);
void EngramGate(const EngramGateParams& p);
void Markov(const MarkovParams& p);

// y = W x for `rows` rows of floats; the fp32 results are handed to store(row, out index, value).
template <typename Store>
void MultiplyRows(const Stream& stream, const Matrix& w, const float* x, int64_t rows,
                  Store&& store);

}  // namespace thalweg::kernels::reference

#include "kernels/reference/multiply.h"
