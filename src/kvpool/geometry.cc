#include "kvpool/geometry.h"

namespace thalweg::kvpool {

int64_t Geometry::BlockBytes() const {
  int64_t bytes = 0;
  for (const OwnerGroup& g : owners)
    bytes += block_tokens / g.ratio * (MainRowBytes(g) + IndexRowBytes(g));
  return bytes;
}

int64_t Geometry::SlotBytes() const {
  int64_t bytes = window_layers * RingRows() * WindowRowBytes() +
                  HistoryRows() * static_cast<int64_t>(sizeof(int32_t));
  for (const OwnerGroup& g : owners) {
    if (g.ratio == 2)
      bytes += PendingRows() * 2 * g.main_width * static_cast<int64_t>(sizeof(float));
  }
  return bytes;
}

}  // namespace thalweg::kvpool
