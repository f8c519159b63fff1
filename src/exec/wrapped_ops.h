// An op table whose entries do something around those of another one.
#pragma once

#include "kernels/ops.h"

namespace thalweg::exec {

// Entries of a table are plain functions, so what they need stands in a class: Around::Inner() is
// the table that does the work, and Around::Run(name, body, params) is called in the place of
// body(params). Entries that the inner table lacks stay null; packing is left as it is.
template <typename Around>
kernels::Ops WrapOps(const kernels::Ops& inner) {
  kernels::Ops ops = inner;
#define TW_WRAP(entry)                                                                          \
  if (inner.entry != nullptr) {                                                                 \
    ops.entry = [](const auto& params) { Around::Run(#entry, Around::Inner().entry, params); }; \
  }
  TW_WRAP(embed)
  TW_WRAP(hyper_finish)
  TW_WRAP(hyper_predict)
  TW_WRAP(collapse)
  TW_WRAP(tap)
  TW_WRAP(linear)
  TW_WRAP(grouped_linear)
  TW_WRAP(norm)
  TW_WRAP(window_rows)
  TW_WRAP(pool)
  TW_WRAP(store_rows)
  TW_WRAP(index_select)
  TW_WRAP(attention)
  TW_WRAP(gate)
  TW_WRAP(experts)
  TW_WRAP(engram_gather)
  TW_WRAP(engram_gate)
  TW_WRAP(markov)
  TW_WRAP(copy_rows)
  TW_WRAP(compact_rows)
#undef TW_WRAP
  return ops;
}

}  // namespace thalweg::exec
