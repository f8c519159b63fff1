#include "kernels/ops.h"

#include "kernels/reference/bodies.h"

namespace thalweg::kernels {

namespace {

int64_t NothingPacked(const Matrix&) { return 0; }
void PackNothing(const Stream&, const Matrix&, void*) {}

}  // namespace

const Ops& ReferenceOps() {
  static const Ops ops = {
      .name = "reference",
      .same_rounding = true,
      .embed = reference::Embed,
      .hyper_finish = reference::HyperFinish,
      .hyper_predict = reference::HyperPredict,
      .collapse = reference::Collapse,
      .tap = reference::Tap,
      .linear = reference::Linear,
      .grouped_linear = reference::GroupedLinear,
      .norm = reference::Norm,
      .window_rows = reference::WindowRows,
      .pool = reference::Pool,
      .store_rows = reference::StoreRows,
      .index_select = reference::IndexSelect,
      .attention = reference::Attention,
      .gate = reference::Gate,
      .experts = reference::Experts,
      .engram_gather = reference::EngramGather,
      .engram_gate = reference::EngramGate,
      .markov = reference::Markov,
      .copy_rows = reference::CopyRows,
      .compact_rows = reference::CompactRows,
      .packed_bytes = NothingPacked,
      .pack = PackNothing,
  };
  return ops;
}

}  // namespace thalweg::kernels
