// Rows moved as bytes: no backend on the host has a faster way.
#include <cstring>

#include "kernels/reference/bodies.h"

namespace thalweg::kernels::reference {

void CopyRows(const CopyRowsParams& p) {
  for (int64_t i = 0; i < p.count; ++i)
    std::memcpy(p.to[i], p.from[i], static_cast<size_t>(p.bytes));
}

void CompactRows(const CompactRowsParams& p) {
  auto* data = static_cast<std::byte*>(p.data);
  for (int64_t i = 0; i < p.count; ++i) {
    if (p.kept[i] != i)
      std::memmove(data + i * p.bytes, data + p.kept[i] * p.bytes, static_cast<size_t>(p.bytes));
  }
}

}  // namespace thalweg::kernels::reference
