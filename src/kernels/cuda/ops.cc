#include "kernels/cuda/ops.h"

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/gauges.h"
#include "kernels/cuda/memory.h"

namespace thalweg::kernels::cuda {

const Ops& CudaOps() {
  static const Ops ops = {
      .name = "cuda",
      .sums = SumOrder::kMatrixUnits,
      .memory = &CudaMemory(),
      .embed = Embed,
      .hyper_finish = HyperFinish,
      .hyper_predict = HyperPredict,
      .collapse = Collapse,
      .tap = Tap,
      .linear = Linear,
      .grouped_linear = GroupedLinear,
      .norm = Norm,
      .window_rows = WindowRows,
      .pool = Pool,
      .store_rows = StoreRows,
      .index_select = IndexSelect,
      .attention = Attention,
      .gate = Gate,
      .experts = Experts,
      .engram_gather = EngramGather,
      .engram_gate = EngramGate,
      .markov = Markov,
      .copy_rows = CopyRows,
      .compact_rows = CompactRows,
      .engram_hash = EngramHash,
      .choose = Choose,
      .accept = Accept,
      .advance = Advance,
      .packed_bytes = PackedBytes,
      .pack = Pack,
      .gauges = &CudaGauges(),
  };
  return ops;
}

}  // namespace thalweg::kernels::cuda
