#include "tools/bench/weights.h"

#include "base/check.h"
#include "kernels/stored_bytes.h"

namespace thalweg::tools::bench {
namespace {

using kernels::Inputs;
using kernels::Matrix;
using kernels::WeightFormat;

constexpr uint64_t kVariants = 7;  // distinct matrices of a shape on a device

// Three neighbouring powers of two; e4m3 codes are some 2^5 larger than e2m1 codes.
void FillScales(WeightFormat format, uint8_t* scales, int64_t bytes, uint64_t seed) {
  FillRandom(scales, bytes, seed);
  const int lowest = format == WeightFormat::kFp4 ? 118 : 112;
  for (int64_t i = 0; i < bytes; ++i) scales[i] = static_cast<uint8_t>(lowest + scales[i] % 3);
}

// Random codes, and scales where the format has them, in `memory`.
Matrix MakeStored(WeightFormat format, int64_t rows, int64_t cols, uint64_t seed, Memory* memory) {
  if (format == WeightFormat::kBF16)
    return {format, memory->SmallBF16(rows * cols), {}, rows, cols};
  const int64_t bytes = kernels::CodeBytes(format, rows, cols);
  auto* codes = memory->Take<uint8_t>(bytes);
  FillRandom(codes, bytes, seed);
  for (int64_t i = 0; format == WeightFormat::kFp8 && i < bytes; ++i) {
    codes[i] = static_cast<uint8_t>(codes[i] & ((codes[i] & 0x7f) == 0x7f ? 0xfe : 0xff));
  }
  const int64_t scale_bytes = kernels::ScaleBytes(format, rows, cols);
  auto* scales = memory->Take<uint8_t>(scale_bytes);
  FillScales(format, scales, scale_bytes, seed + 1);
  return {format, codes, scales, rows, cols};
}

}  // namespace

int64_t StoredBytes(WeightFormat format, int64_t rows, int64_t cols) {
  return kernels::CodeBytes(format, rows, cols) + kernels::ScaleBytes(format, rows, cols);
}

Matrix WeightMaker::MakeNew(WeightFormat format, int64_t rows, int64_t cols, Inputs inputs,
                            uint64_t seed) {
  Memory transient;
  Matrix m = MakeStored(format, rows, cols, seed, &transient);
  m.inputs = inputs;
  const int64_t packed_bytes = ops_.packed_bytes(m);
  if (packed_bytes == 0) return MakeStored(format, rows, cols, seed, &memory_);
  auto* packed = memory_.Take<uint8_t>(packed_bytes);
  ops_.pack(stream_, m, packed);
  return {.format = format, .rows = rows, .cols = cols, .packed = packed};
}

Matrix WeightMaker::Make(WeightFormat format, int64_t rows, int64_t cols, Inputs inputs) {
  TW_CHECK(format != WeightFormat::kF32);
  made_ += 2;
  if (memory_.where().host) return MakeNew(format, rows, cols, inputs, made_);
  const uint64_t variant = made_ / 2 % kVariants;
  const auto known = originals_.find({format, rows, cols, inputs, variant});
  if (known == originals_.end()) {
    const Matrix made = MakeNew(format, rows, cols, inputs, made_);
    return originals_[{format, rows, cols, inputs, variant}] = made;
  }
  Matrix m = known->second;
  if (m.packed != nullptr) {
    m.packed = memory_.CopyOf(m.packed, ops_.packed_bytes(m));
  } else {
    m.data = memory_.CopyOf(m.data, kernels::CodeBytes(m));
  }
  return m;
}

kernels::FeedForward WeightMaker::MakeFeedForward(WeightFormat format, int64_t hidden,
                                                  int64_t inner) {
  return {.w1 = Make(format, inner, hidden),
          .w3 = Make(format, inner, hidden),
          .w2 = Make(format, hidden, inner)};
}

}  // namespace thalweg::tools::bench
