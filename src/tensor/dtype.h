// Element types of checkpoints and caches.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/check.h"

namespace thalweg::tensor {

enum class DType { kF32, kBF16, kF8E4M3, kF8E8M0, kI8, kU8, kI32, kI64, kF16, kBool };

// Bytes of one element. Packed FP4 is stored as kI8, two values a byte (spec/model.md 3.3).
constexpr int64_t SizeOf(DType type) {
  switch (type) {
    case DType::kI64: return 8;
    case DType::kF32:
    case DType::kI32: return 4;
    case DType::kBF16:
    case DType::kF16: return 2;
    default: return 1;
  }
}

// The safetensors name of a type ("F32", "BF16", "F8_E4M3", "F8_E8M0", "I8", ...).
std::string_view SafetensorsName(DType type);
// The type of a safetensors name; nothing when it is not one that this engine reads.
std::optional<DType> ParseSafetensorsName(std::string_view name);

}  // namespace thalweg::tensor
