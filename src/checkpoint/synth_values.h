// The bytes of one synthetic tensor, rows at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/expected.h"
#include "checkpoint/synth_random.h"

namespace thalweg::checkpoint {

// Codes of the normal quantiles over a scale: [shift][quantile], the scale being 2^shift larger at
// each step. Groups of a tensor differ in shift, so that a reader who mixes up scales is found out.
inline constexpr int kShifts = 2;
using CodeTable = std::array<std::array<uint8_t, kQuantiles>, kShifts>;

// Tables are few and shared by many tensors: a cache for one run of the writer.
class CodeTables {
 public:
  enum class Format { kE4M3, kE2M1 };
  // `deviation` in units of the smallest scale.
  const CodeTable& For(Format format, float deviation);

 private:
  std::map<std::pair<Format, float>, CodeTable> tables_;
};

class SyntheticTensor {
 public:
  SyntheticTensor(const ExpectedTensor& tensor, uint64_t seed, CodeTables& tables);

  int64_t rows() const { return rows_; }
  int64_t row_bytes() const { return row_bytes_; }
  // Writes rows [first, first + count), count * row_bytes() bytes.
  void Fill(int64_t first, int64_t count, std::span<std::byte> out);

 private:
  void FillReal(int64_t first, int64_t count, std::span<std::byte> out);
  void FillScales(int64_t first, int64_t count, std::span<std::byte> out);
  void FillFp8(int64_t first, int64_t count, std::span<std::byte> out);
  void FillFp4(int64_t first, int64_t count, std::span<std::byte> out);
  void Draw(const ElementDraws& draws, int64_t first, int64_t count, std::vector<uint16_t>& out);
  void DrawShifts(int64_t row);
  float SmallestScale() const;
  CodeTables::Format format() const;

  const ExpectedTensor& tensor_;
  CodeTables& tables_;
  ElementDraws draws_;        // of the tensor
  ElementDraws scale_draws_;  // of its scale (of the tensor itself if it is one)
  double mean_ = 0;
  float deviation_ = 0;
  int64_t rows_ = 1;
  int64_t columns_ = 0;  // values of a row
  int64_t row_bytes_ = 0;
  bool tiled_ = false;  // 32 rows share a row of scales
  std::vector<uint16_t> bits_;
  std::vector<uint16_t> shifts_;
};

}  // namespace thalweg::checkpoint
