// Every limit of the room.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::parallel {

inline constexpr int64_t kMostRanks = 4096;
inline constexpr int64_t kMostExperts = 1 << 16;  // of a layer
inline constexpr int64_t kMostLayers = 4096;
inline constexpr int64_t kMostSlots = 1 << 20;       // of a layer, over all ranks
inline constexpr uint64_t kMostFileBytes = 1 << 28;  // of a placement or of statistics
inline constexpr int64_t kMostPositions = 1 << 22;
inline constexpr int64_t kMostFixedCost = int64_t{1} << 36;  // of a row
inline constexpr int64_t kMostPositionCost = 1 << 16;  // of a row, for each position before it
inline constexpr int64_t kMostTopExperts = 255;
inline constexpr int64_t kMostLoad = int64_t{1} << 53;

}  // namespace thalweg::parallel
