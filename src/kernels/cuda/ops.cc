#include "kernels/cuda/ops.h"

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/gauges.h"
#include "kernels/cuda/memory.h"

namespace thalweg::kernels::cuda {

namespace {

Ops OpsOf(Numerics numerics) {
  const bool fast = numerics == Numerics::kFast;
  return {
      .name = "cuda",
      .numerics = numerics,
      .sums = SumOrder::kMatrixUnits,
      .memory = &CudaMemory(),
      .embed = Embed,
      .hyper_finish = HyperFinish,
      .hyper_predict = HyperPredict,
      .collapse = Collapse,
      .tap = Tap,
      .linear = fast ? LinearFast : Linear,
      .grouped_linear = GroupedLinear,
      .norm = Norm,
      .window_rows = WindowRows,
      .pool = Pool,
      .store_rows = StoreRows,
      .index_select = IndexSelect,
      .attention = Attention,
      .gate = Gate,
      .experts = fast ? ExpertsFast : Experts,
      .engram_gather = EngramGather,
      .engram_gate = EngramGate,
      .markov = Markov,
      .copy_rows = CopyRows,
      .compact_rows = CompactRows,
      .engram_hash = EngramHash,
      .choose = Choose,
      .accept = Accept,
      .advance = Advance,
      .packed_bytes = fast ? PackedBytesFast : PackedBytes,
      .pack = fast ? PackFast : Pack,
      .gauges = &CudaGauges(),
  };
}

}  // namespace

const Ops& CudaOps(Numerics numerics) {
  static const Ops exact = OpsOf(Numerics::kExact);
  static const Ops fast = OpsOf(Numerics::kFast);
  return numerics == Numerics::kFast ? fast : exact;
}

}  // namespace thalweg::kernels::cuda
