// All bodies of the `cpu` backend for one target; THALWEG_CPU_TARGET names its namespace.
#include "kernels/cpu/grouping.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/select.h"
#include "kernels/cpu/targets.h"
#include "kernels/ops.h"
#include "kernels/reference/bodies.h"

// clang-format off: each file builds on those before it.
#include "kernels/cpu/attention.inc.h"
#include "kernels/cpu/caches.inc.h"
#include "kernels/cpu/decode.inc.h"
#include "kernels/cpu/hyper.inc.h"
#include "kernels/cpu/index_select.inc.h"
#include "kernels/cpu/linear.inc.h"
#include "kernels/cpu/math.inc.h"
#include "kernels/cpu/moe.inc.h"
#include "kernels/cpu/product.inc.h"
#include "kernels/cpu/rows.inc.h"
#include "kernels/cpu/simd.inc.h"
// clang-format on

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {

const Ops& TargetOps() {
  static const Ops ops = {
      .name = "cpu",
      .same_rounding = false,
      .embed = reference::Embed,
      .hyper_finish = HyperFinish,
      .hyper_predict = HyperPredict,
      .collapse = Collapse,
      .tap = reference::Tap,
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
  };
  return ops;
}

}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
