#include "kernels/test_kit.h"

namespace thalweg::kernels::testing {

OwnedMatrix::OwnedMatrix(WeightFormat format, int64_t rows, int64_t cols, Random* random)
    : format_(format), rows_(rows), cols_(cols) {
  const float deviation = 1.0f / std::sqrt(static_cast<float>(cols));
  const auto random_scale = [&] { return static_cast<uint8_t>(118 + random->Below(5)); };
  switch (format) {
    case WeightFormat::kF32: floats_ = random->Floats(rows * cols, deviation); break;
    case WeightFormat::kBF16: halves_ = random->Values(rows * cols, deviation); break;
    case WeightFormat::kFp8:
      codes_ = random->Codes(rows * cols);
      for (uint8_t& code : codes_) code = (code & 0x7fu) == 0x7fu ? 0 : code;
      scales_.resize(static_cast<size_t>((rows + 31) / 32 * (cols / 32)));
      for (uint8_t& scale : scales_) scale = static_cast<uint8_t>(random_scale() - 8);
      break;
    case WeightFormat::kFp4:
      codes_ = random->Codes(rows * cols / 2);
      scales_.resize(static_cast<size_t>(rows * (cols / 32)));
      for (uint8_t& scale : scales_) scale = random_scale();
      break;
  }
}

OwnedMatrix::operator Matrix() const {
  const void* data = codes_.data();
  if (format_ == WeightFormat::kF32) data = floats_.data();
  if (format_ == WeightFormat::kBF16) data = halves_.data();
  return {format_, data, scales_.empty() ? nullptr : scales_.data(), rows_, cols_};
}

std::vector<BF16> QuantisedRows(int64_t width, Random* random) {
  std::vector<BF16> rows = random->Values(kRows * width);
  for (int64_t r = 0; r < kRows; ++r) {
    BF16* row = rows.data() + r * width;
    tensor::RoundTripRow(RowFormat::kFp8E8M0, row, width, row);
  }
  return WithGarbage(std::move(rows), width);
}

Angles::Angles(int64_t dim, Random* random) : rope_dim(dim) {
  for (int64_t i = 0; i < (kRows + 1) * dim / 2; ++i) {
    const float t = random->Normal(1.5f);  // tangent of half the angle: no C library takes part
    cos.push_back((1 - t * t) / (1 + t * t));
    sin.push_back((t + t) / (1 + t * t));
  }
}

PickedAngles::PickedAngles(const Angles& angles, const Rows& rows)
    : cos(Pick(angles.cos, angles.rope_dim / 2, rows)),
      sin(Pick(angles.sin, angles.rope_dim / 2, rows)),
      rotation{cos.data(), sin.data(), angles.rope_dim} {}

}  // namespace thalweg::kernels::testing
