#include "model/idle_ops.h"

namespace thalweg::model {
namespace {

template <typename Params>
void DoNothing(const Params& /*params*/) {}

}  // namespace

const kernels::Ops& IdleOps() {
  static const kernels::Ops ops = {
      .name = "idle",
      .embed = DoNothing,
      .hyper_finish = DoNothing,
      .hyper_predict = DoNothing,
      .collapse = DoNothing,
      .tap = DoNothing,
      .linear = DoNothing,
      .grouped_linear = DoNothing,
      .norm = DoNothing,
      .window_rows = DoNothing,
      .pool = DoNothing,
      .store_rows = DoNothing,
      .index_select = DoNothing,
      .attention = DoNothing,
      .gate = DoNothing,
      .experts = DoNothing,
      .engram_gather = DoNothing,
      .engram_gate = DoNothing,
      .markov = DoNothing,
      .copy_rows = DoNothing,
      .compact_rows = DoNothing,
      .engram_hash = DoNothing,
      .choose = DoNothing,
      .accept = DoNothing,
      .advance = DoNothing,
  };
  return ops;
}

}  // namespace thalweg::model
