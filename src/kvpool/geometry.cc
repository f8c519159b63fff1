#include "kvpool/geometry.h"

namespace thalweg::kvpool {

int64_t Geometry::BlockBytes() const {
  int64_t bytes = 0;
  for (const OwnerGroup& g : owners)
    bytes += block_tokens / g.ratio * (MainRowBytes(g) + IndexRowBytes(g));
  return bytes;
}

int64_t Geometry::PendingBytes() const {
  int64_t floats = 0;
  for (const OwnerGroup& g : owners) {
    if (g.ratio == 2) floats += PendingRows() * 2 * g.main_width;
  }
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t Geometry::CheckpointBytes(int64_t layers) const {
  return layers * RingBytes() + PendingBytes() +
         HistoryRows() * static_cast<int64_t>(sizeof(int32_t));
}

int64_t Geometry::SlotBytes() const { return CheckpointBytes(window_layers); }

}  // namespace thalweg::kvpool
