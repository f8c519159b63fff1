#include "tensor/dtype.h"

#include <array>
#include <utility>

namespace thalweg::tensor {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 10> kNames = {{
    {DType::kF32, "F32"},
    {DType::kBF16, "BF16"},
    {DType::kF8E4M3, "F8_E4M3"},
    {DType::kF8E8M0, "F8_E8M0"},
    {DType::kI8, "I8"},
    {DType::kU8, "U8"},
    {DType::kI32, "I32"},
    {DType::kI64, "I64"},
    {DType::kF16, "F16"},
    {DType::kBool, "BOOL"},
}};

}  // namespace

std::string_view SafetensorsName(DType type) {
  for (const auto& [known, name] : kNames) {
    if (known == type) return name;
  }
  return "?";
}

std::optional<DType> ParseSafetensorsName(std::string_view name) {
  for (const auto& [type, known] : kNames) {
    if (known == name) return type;
  }
  return std::nullopt;
}

}  // namespace thalweg::tensor
