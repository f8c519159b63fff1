// All bodies of the `cpu` backend for one target; THALWEG_CPU_TARGET names its namespace.
#pragma once

#include "kernels/cpu/attention.inc.h"
#include "kernels/cpu/caches.inc.h"
#include "kernels/cpu/exchange.inc.h"
#include "kernels/cpu/hyper.inc.h"
#include "kernels/cpu/index_select.inc.h"
#include "kernels/cpu/linear.inc.h"
#include "kernels/cpu/moe.inc.h"
#include "kernels/cpu/targets.h"
#include "kernels/reference/bodies.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {

namespace {

#if defined(__AMX_BF16__)
constexpr SumOrder kSums = SumOrder::kEvenAndOdd;
#else
constexpr SumOrder kSums = SumOrder::kPairByPair;
#endif

template <Numerics kNumerics>
Ops MakeOps() {
  return {
      .name = "cpu",
      .numerics = kNumerics,
      .sums = kSums,
      .same_rounding = false,
      .embed = Embed,
      .hyper_finish = HyperFinish,
      .hyper_predict = HyperPredict,
      .collapse = Collapse,
      .tap = Tap,
      .linear = Linear<kNumerics>,
      .grouped_linear = GroupedLinear<kNumerics>,
      .norm = Norm,
      .window_rows = WindowRows,
      .pool = Pool,
      .store_rows = StoreRows,
      .index_select = IndexSelect,
      .attention = Attention,
      .gate = Gate<kNumerics>,
      .experts = Experts<kNumerics>,
      .engram_gather = EngramGather,
      .engram_gate = EngramGate,
      .markov = Markov<kNumerics>,
      .copy_rows = reference::CopyRows,
      .compact_rows = reference::CompactRows,
      .packed_bytes = kNumerics == Numerics::kExact ? PackedBytesExact : PackedBytesFast,
      .pack = kNumerics == Numerics::kExact ? PackExact : PackFast,
  };
}

}  // namespace

const Ops& TargetOps(Numerics numerics) {
  static const Ops exact = MakeOps<Numerics::kExact>();
  static const Ops fast = MakeOps<Numerics::kFast>();
  return numerics == Numerics::kExact ? exact : fast;
}

const ExchangeOps& TargetExchangeOps() {
  static const ExchangeOps ops = {PickRows, UnpackRows, SumResults};
  return ops;
}

}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
