// The descriptor table of the `cpu` backend: one row per compiled instruction set.
#pragma once

#include <span>
#include <string_view>

#include "kernels/exchange.h"
#include "kernels/ops.h"

namespace thalweg::kernels::cpu {

struct TargetRow {
  std::string_view name;
  bool (*supported)();  // by the processor that runs this
  const Ops& (*ops)(Numerics);
  const ExchangeOps& (*exchange)();
};

// Plainest first: the last supported row is the one to use.
std::span<const TargetRow> TargetTable();

namespace generic {
const Ops& TargetOps(Numerics numerics);
const ExchangeOps& TargetExchangeOps();
}
namespace avx2 {
const Ops& TargetOps(Numerics numerics);
const ExchangeOps& TargetExchangeOps();
}
namespace avx512 {
const Ops& TargetOps(Numerics numerics);
const ExchangeOps& TargetExchangeOps();
}
namespace avx512bf16 {
const Ops& TargetOps(Numerics numerics);
const ExchangeOps& TargetExchangeOps();
}
namespace amx {
const Ops& TargetOps(Numerics numerics);
const ExchangeOps& TargetExchangeOps();
}

}  // namespace thalweg::kernels::cpu
