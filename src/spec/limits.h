// Every limit of the room.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::spec {

inline constexpr int64_t kMaxSlots = 64;  // drafts of a block
inline constexpr uint64_t kMaxTableBytes = 4 << 20;
inline constexpr size_t kMaxKeyBytes = 4096;  // of hardware, options, model
inline constexpr size_t kMaxCostPoints = 4096;
inline constexpr size_t kMaxAxis = 512;              // different numbers of sequences, of rows
inline constexpr int64_t kMaxSteppedRows = 1 << 24;  // rows of a step
inline constexpr double kLeastSeconds = 1e-9;
inline constexpr double kMostSeconds = 1e4;
inline constexpr double kLeastTemperature = 1.0 / 16;  // of a confidence
inline constexpr double kMostTemperature = 16;

}  // namespace thalweg::spec
