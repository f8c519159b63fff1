// Tools of the op tests: random operands in every stored format, and ops wrapped so that any list
// of rows can be sent through them as one call.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "kernels/backends.h"
#include "kernels/ops.h"

namespace thalweg::kernels::testing {

// Seeded numbers, the same on every machine: no logarithm of a C library takes part.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  // Nearly normal: the sum of eight uniform numbers of 16 bits, at most 4.9 deviations from zero.
  float Normal(float deviation = 1.0f) {
    int32_t sum = 0;
    for (int i = 0; i < 4; ++i) {
      const auto word = static_cast<uint32_t>(engine_());
      sum += static_cast<int32_t>((word & 0xffffu) + (word >> 16));
    }
    constexpr float kUnit = 1.2247449f / 65536.0f;  // sqrt(12 / 8) / 2^16
    return deviation * (static_cast<float>(sum - 4 * 65535) * kUnit);
  }
  int64_t Below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  std::vector<float> Floats(int64_t n, float deviation = 1.0f, float mean = 0.0f) {
    std::vector<float> out(static_cast<size_t>(n));
    for (float& x : out) x = mean + Normal(deviation);
    return out;
  }
  std::vector<BF16> Values(int64_t n, float deviation = 1.0f, float mean = 0.0f) {
    std::vector<BF16> out(static_cast<size_t>(n));
    for (BF16& x : out) x = tensor::ToBF16(mean + Normal(deviation));
    return out;
  }
  std::vector<uint8_t> Codes(int64_t n) {
    std::vector<uint8_t> out(static_cast<size_t>(n));
    for (uint8_t& x : out) x = static_cast<uint8_t>(Below(256));
    return out;
  }

 private:
  std::mt19937 engine_;
};

// A matrix that owns its codes: every code but NaN occurs, scales vary by a factor of 16.
class OwnedMatrix {
 public:
  OwnedMatrix(WeightFormat format, int64_t rows, int64_t cols, Random* random);
  operator Matrix() const;  // NOLINT: implicit on purpose
  WeightFormat format() const { return format_; }

 private:
  WeightFormat format_;
  int64_t rows_, cols_;
  std::vector<float> floats_;
  std::vector<BF16> halves_;
  std::vector<uint8_t> codes_, scales_;
};

// Which rows of an op's inputs make a call, in this order. kGarbage is a row of NaN.
using Rows = std::vector<int>;
inline constexpr int kRows = 80;
inline constexpr int kGarbage = kRows;

// What the op wrote for each row of a call, all outputs side by side.
using RowOutputs = std::vector<std::vector<float>>;

// How far a fast backend may be from the reference: relative to the RMS of the reference values.
struct Tolerance {
  double rms = 0;
  double largest = 0;
};

// In a program that tests a device: its ops, each waited for, on the host memory of the tests.
// Null in all others.
const Ops* DeviceOps();

// The plainest table of this processor that must give the same bits as `ops`.
inline const Ops& PlainestLike(const Ops& ops) {
  for (const CpuTarget& target : CpuTargets()) {
    if (!target.supported) continue;
    const Ops& plain = ops.numerics == Numerics::kExact ? *target.ops : *target.fast;
    if (plain.sums == ops.sums) return plain;
  }
  return ops;
}

// One op with inputs for kRows rows and one garbage row, some of its shapes fixed.
class RowOp {
 public:
  virtual ~RowOp() = default;
  virtual std::string name() const = 0;
  virtual Tolerance tolerance() const = 0;
  virtual bool multiplies() const { return false; }  // in the order of Ops::sums
  virtual RowOutputs Run(const Ops& ops, const base::ThreadTeam& team, const Rows& rows) const = 0;
};

using RowOps = std::vector<std::unique_ptr<RowOp>>;
void AddProjectionCases(RowOps* cases);
void AddHyperConnectionCases(RowOps* cases);
void AddExpertCases(RowOps* cases);
void AddCacheCases(RowOps* cases);
void AddAttentionCases(RowOps* cases);
void AddEngramCases(RowOps* cases);

// The chosen rows of all [kRows + 1, width], one after another.
template <typename T>
std::vector<T> Pick(const std::vector<T>& all, int64_t width, const Rows& rows) {
  std::vector<T> out;
  for (const int r : rows)
    out.insert(out.end(), all.begin() + r * width, all.begin() + (r + 1) * width);
  return out;
}

inline void AppendValue(std::vector<float>* out, float x) { out->push_back(x); }
inline void AppendValue(std::vector<float>* out, BF16 x) { out->push_back(ToFloat(x)); }
inline void AppendValue(std::vector<float>* out, uint8_t x) { out->push_back(x); }
inline void AppendValue(std::vector<float>* out, int32_t x) {
  out->push_back(static_cast<float>(x));
}

// Adds `width` values a row to what each row wrote.
template <typename T>
void Append(RowOutputs* outputs, const std::vector<T>& values, int64_t width) {
  for (size_t r = 0; r < outputs->size(); ++r) {
    for (int64_t c = 0; c < width; ++c) {
      AppendValue(&(*outputs)[r], values[r * static_cast<size_t>(width) + static_cast<size_t>(c)]);
    }
  }
}

// Random rows and one of NaN behind them.
inline std::vector<BF16> WithGarbage(std::vector<BF16> rows, int64_t width) {
  rows.resize(rows.size() + static_cast<size_t>(width), BF16{0x7fc0});
  return rows;
}
inline std::vector<float> WithGarbage(std::vector<float> rows, int64_t width) {
  rows.resize(rows.size() + static_cast<size_t>(width), std::numeric_limits<float>::quiet_NaN());
  return rows;
}

// kRows rows as the FP8 quantiser leaves them, and the garbage row.
std::vector<BF16> QuantisedRows(int64_t width, Random* random);

// Angles of each row and of the garbage row.
struct Angles {
  std::vector<float> cos, sin;
  int64_t rope_dim = 0;
  Angles(int64_t dim, Random* random);
};

// The angles of the rows of one call.
struct PickedAngles {
  std::vector<float> cos, sin;
  Rotation rotation;
  PickedAngles(const Angles& angles, const Rows& rows);
};

}  // namespace thalweg::kernels::testing
