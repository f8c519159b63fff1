#include "checkpoint/synth_values.h"

#include <cstring>

#include "checkpoint/synth_stats.h"
#include "tensor/formats.h"

namespace thalweg::checkpoint {
namespace {

using tensor::DType;

constexpr int64_t kGroup = 32;  // values that share a scale

std::string ScaleName(const std::string& name) {
  const std::string_view weight = ".weight";
  if (!name.ends_with(weight)) return name;
  return name.substr(0, name.size() - weight.size()) + ".scale";
}

uint8_t Encode(CodeTables::Format format, float x) {
  return format == CodeTables::Format::kE4M3 ? tensor::FloatToE4M3(x) : tensor::FloatToE2M1(x);
}

}  // namespace

const CodeTable& CodeTables::For(Format format, float deviation) {
  const auto [at, inserted] = tables_.try_emplace({format, deviation});
  if (!inserted) return at->second;
  for (size_t shift = 0; shift < kShifts; ++shift) {
    const float unit = deviation / static_cast<float>(1 << shift);
    for (size_t i = 0; i < kQuantiles; ++i) {
      at->second[shift][i] = Encode(format, NormalQuantiles()[i] * unit);
    }
  }
  return at->second;
}

SyntheticTensor::SyntheticTensor(const ExpectedTensor& tensor, uint64_t seed, CodeTables& tables)
    : tensor_(tensor),
      tables_(tables),
      draws_(seed, tensor.name),
      scale_draws_(seed, ScaleName(tensor.name)) {
  const Distribution distribution = DistributionOf(tensor);
  mean_ = distribution.mean;
  deviation_ = static_cast<float>(distribution.deviation);
  const int rank = tensor.shape.rank();
  const int64_t stored = tensor.shape[rank - 1];
  rows_ = tensor.shape.elements() / stored;
  row_bytes_ = stored * tensor::SizeOf(tensor.dtype);
  columns_ = tensor.dtype == DType::kI8 ? stored * 2 : stored;
  tiled_ = tensor.dtype == DType::kF8E4M3 && !tensor.name.ends_with("engram.embed.weight");
}

CodeTables::Format SyntheticTensor::format() const {
  return tensor_.category == Category::kExpert ? CodeTables::Format::kE2M1
                                               : CodeTables::Format::kE4M3;
}

// The smallest power of two under which the largest value does not saturate.
float SyntheticTensor::SmallestScale() const {
  const float limit = format() == CodeTables::Format::kE4M3 ? 448.0f : 6.0f;
  return tensor::E8M0ToFloat(tensor::E8M0CeilCode(LargestQuantile() * deviation_ / limit));
}

void SyntheticTensor::Fill(int64_t first, int64_t count, std::span<std::byte> out) {
  TW_CHECK_EQ(static_cast<int64_t>(out.size()), count * row_bytes_);
  switch (tensor_.dtype) {
    case DType::kF8E8M0: return FillScales(first, count, out);
    case DType::kF8E4M3: return FillFp8(first, count, out);
    case DType::kI8: return FillFp4(first, count, out);
    default: return FillReal(first, count, out);
  }
}

void SyntheticTensor::Draw(const ElementDraws& draws, int64_t first, int64_t count,
                           std::vector<uint16_t>& out) {
  out.resize(static_cast<size_t>(count));
  draws.Fill(static_cast<uint64_t>(first), out);
}

void SyntheticTensor::FillReal(int64_t first, int64_t count, std::span<std::byte> out) {
  Draw(draws_, first * columns_, count * columns_, bits_);
  const auto mean = static_cast<float>(mean_);
  std::byte* at = out.data();
  for (const uint16_t draw : bits_) {
    const float value = mean + deviation_ * NormalQuantiles()[QuantileIndex(draw)];
    if (tensor_.dtype == DType::kF32) {
      std::memcpy(at, &value, sizeof(value));
      at += sizeof(value);
    } else {
      const tensor::BF16 rounded = tensor::ToBF16(value);
      std::memcpy(at, &rounded, sizeof(rounded));
      at += sizeof(rounded);
    }
  }
}

void SyntheticTensor::FillScales(int64_t first, int64_t count, std::span<std::byte> out) {
  Draw(scale_draws_, first * columns_, count * columns_, bits_);
  const uint8_t smallest = tensor::E8M0CeilCode(SmallestScale());
  for (size_t i = 0; i < bits_.size(); ++i) {
    out[i] = static_cast<std::byte>(smallest + bits_[i] % kShifts);
  }
}

// The shifts that the scales of this row say, one per group of columns.
void SyntheticTensor::DrawShifts(int64_t row) {
  const int64_t groups = columns_ / kGroup;
  Draw(scale_draws_, (tiled_ ? row / kGroup : row) * groups, groups, shifts_);
  for (uint16_t& shift : shifts_) shift %= kShifts;
}

void SyntheticTensor::FillFp8(int64_t first, int64_t count, std::span<std::byte> out) {
  const CodeTable& codes = tables_.For(format(), deviation_ / SmallestScale());
  Draw(draws_, first * columns_, count * columns_, bits_);
  size_t at = 0;
  for (int64_t row = first; row < first + count; ++row) {
    DrawShifts(row);
    for (const uint16_t shift : shifts_) {
      for (const size_t end = at + kGroup; at < end; ++at) {
        out[at] = static_cast<std::byte>(codes[shift][QuantileIndex(bits_[at])]);
      }
    }
  }
}

void SyntheticTensor::FillFp4(int64_t first, int64_t count, std::span<std::byte> out) {
  const CodeTable& codes = tables_.For(format(), deviation_ / SmallestScale());
  Draw(draws_, first * columns_, count * columns_, bits_);
  size_t at = 0;
  for (int64_t row = first; row < first + count; ++row) {
    DrawShifts(row);
    for (const uint16_t shift : shifts_) {
      for (const size_t end = at + kGroup / 2; at < end; ++at) {
        const uint8_t low = codes[shift][QuantileIndex(bits_[2 * at])];
        const uint8_t high = codes[shift][QuantileIndex(bits_[2 * at + 1])];
        out[at] = static_cast<std::byte>(low | high << 4);
      }
    }
  }
}

}  // namespace thalweg::checkpoint
