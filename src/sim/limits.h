// Every limit of the room.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::sim {

inline constexpr uint64_t kMaxFileBytes = 16u << 20;  // of a cluster or of costs
inline constexpr int64_t kMostRanks = 1024;
inline constexpr int64_t kMostLayers = 1024;
inline constexpr int64_t kMostExperts = 4096;  // of a layer
inline constexpr int64_t kMostTopk = 64;
inline constexpr int64_t kMostWidth = 1 << 20;   // of a hidden row
inline constexpr int64_t kMostRows = 1 << 20;    // of a step, over all ranks
inline constexpr int64_t kMostTokens = 1 << 22;  // of a prompt or a context
inline constexpr int64_t kMostSteps = 4096;      // of a prompt
inline constexpr size_t kMostPoints = 65536;     // of a curve
inline constexpr size_t kMostOps = 1024;
inline constexpr size_t kMostFigures = 256;  // batches or prompts of one cluster
inline constexpr size_t kMostNameBytes = 4096;
inline constexpr double kMostMicroseconds = 1e12;  // of anything
inline constexpr double kMostSpread = 10;          // of a time, over its mean
inline constexpr double kMostGbPerSecond = 1e6;
inline constexpr int64_t kDraws = 1 << 21;  // experts chosen for a figure, about: more layers and
                                            // samples are drawn where rows are few

}  // namespace thalweg::sim
