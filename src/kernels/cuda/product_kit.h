// Operands of the tests of matrix products on a device, and the ops over them: matrices that are in
// host and in device memory, projections, grouped projections and experts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops.h"
#include "kernels/test_kit.h"

namespace thalweg::kernels::testing {

using tensor::Memory;

class CudaProduct : public ::testing::TestWithParam<Numerics> {
 protected:
  void SetUp() override {
    const Status status = cuda::DeviceStatus();
    if (!status.ok()) GTEST_SKIP() << status.message();
  }
};

// The bodies of the test that runs.
inline const Ops& TestedOps() { return cuda::CudaOps(CudaProduct::GetParam()); }

inline std::string NameOf(const ::testing::TestParamInfo<Numerics>& info) {
  return info.param == Numerics::kFast ? "Fast" : "Exact";
}

// Device memory that holds a list.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& host) : count_(host.size()) {
    const Memory& memory = cuda::CudaMemory();
    data_ = static_cast<T*>(memory.allocate(static_cast<int64_t>(host.size() * sizeof(T) + 64)));
    memory.upload({}, data_, host.data(), static_cast<int64_t>(host.size() * sizeof(T)));
    EXPECT_TRUE(memory.synchronize({}).ok());
  }
  ~OnDevice() { cuda::CudaMemory().release(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  T* get() const { return data_; }
  std::vector<T> Read() const {
    std::vector<T> out(count_);
    const Memory& memory = cuda::CudaMemory();
    memory.download({}, out.data(), data_, static_cast<int64_t>(count_ * sizeof(T)));
    const Status status = memory.synchronize({});
    EXPECT_TRUE(status.ok()) << status.message();
    return out;
  }

 private:
  size_t count_;
  T* data_;
};

enum class Form { kStored, kPacked };

// The device's copies of a matrix in host memory.
class DeviceMatrix {
 public:
  explicit DeviceMatrix(const Matrix& m) : shape_(m) {
    const int64_t bits = m.format == WeightFormat::kF32    ? 32
                         : m.format == WeightFormat::kBF16 ? 16
                         : m.format == WeightFormat::kFp8  ? 8
                                                           : 4;
    data_ = Upload(m.data, m.rows * m.cols * bits / 8);
    if (m.scales == nullptr) return;
    const int64_t lines = m.format == WeightFormat::kFp8 ? (m.rows + 31) / 32 : m.rows;
    scales_ = Upload(m.scales, lines * (m.cols / 32));
    const Ops& ops = TestedOps();
    packed_ = std::make_unique<OnDevice<uint8_t>>(
        std::vector<uint8_t>(static_cast<size_t>(ops.packed_bytes(m))));
    ops.pack({}, m, packed_->get());
  }
  Matrix Get(Form form) const {
    Matrix m = shape_;
    const bool packed = form == Form::kPacked && packed_ != nullptr;
    m.data = packed ? nullptr : data_->get();
    m.scales = packed || scales_ == nullptr ? nullptr : scales_->get();
    m.packed = packed ? packed_->get() : nullptr;
    return m;
  }

 private:
  static std::unique_ptr<OnDevice<uint8_t>> Upload(const void* from, int64_t bytes) {
    const auto* begin = static_cast<const uint8_t*>(from);
    return std::make_unique<OnDevice<uint8_t>>(std::vector<uint8_t>(begin, begin + bytes));
  }
  Matrix shape_;
  std::unique_ptr<OnDevice<uint8_t>> data_, scales_, packed_;
};

// A random matrix in host memory and the same on the device.
class TwinMatrix {
 public:
  TwinMatrix(WeightFormat format, int64_t rows, int64_t cols, Random* random,
             Inputs inputs = Inputs::kQuantised)
      : host_(format, rows, cols, random), device_(Meeting(host_, inputs)) {}
  Matrix Host() const { return host_; }
  Matrix Device(Form form) const { return device_.Get(form); }

 private:
  static Matrix Meeting(Matrix m, Inputs inputs) {
    m.inputs = inputs;
    return m;
  }
  OwnedMatrix host_;
  DeviceMatrix device_;
};

// Rows of values that the FP8 quantiser leaves, every `nan`th one of NaN (0: none).
inline std::vector<BF16> InputRows(int64_t rows, int64_t width, int64_t nan, Random* random) {
  std::vector<BF16> x = random->Values(rows * width);
  for (int64_t r = 0; r < rows; ++r) {
    BF16* row = x.data() + r * width;
    if (width % 32 == 0) tensor::RoundTripRow(RowFormat::kFp8E8M0, row, width, row);
    if (nan > 0 && r % nan == nan - 1) std::fill_n(row, width, BF16{0x7fc0});
  }
  return x;
}

template <typename T>
std::vector<T> RowOfList(const std::vector<T>& all, int64_t row, int64_t width) {
  return {all.begin() + row * width, all.begin() + (row + 1) * width};
}
inline bool SameBits(const std::vector<BF16>& a, const std::vector<BF16>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(BF16)) == 0;
}
inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// RMS of the difference over the RMS of what is wanted.
inline double RelativeError(const std::vector<BF16>& want, const std::vector<BF16>& got) {
  double squares = 1e-30, errors = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double w = ToFloat(want[i]), error = w - ToFloat(got[i]);
    squares += w * w;
    errors += error * error;
  }
  return std::sqrt(errors / squares);
}

// What a projection gives for the rows of x: bf16 and fp32.
struct LinearResult {
  std::vector<BF16> rounded;
  std::vector<float> wide;
};

inline LinearResult RunLinear(const Matrix& w, const std::vector<BF16>& x, int64_t rows) {
  const OnDevice<BF16> input(x);
  const auto size = static_cast<size_t>(rows * w.rows);
  const OnDevice<BF16> rounded{std::vector<BF16>(size)};
  const OnDevice<float> wide{std::vector<float>(size)};
  const Projection projections[] = {{w, rounded.get(), nullptr}, {w, nullptr, wide.get()}};
  TestedOps().linear({{}, rows, w.cols, input.get(), projections});
  return {rounded.Read(), wide.Read()};
}

inline std::vector<BF16> ReferenceLinear(const Matrix& w, const std::vector<BF16>& x,
                                         int64_t rows) {
  const base::ThreadTeam team(2);
  std::vector<BF16> out(static_cast<size_t>(rows * w.rows));
  const Projection projections[] = {{w, out.data(), nullptr}};
  ReferenceOps().linear({{&team}, rows, w.cols, x.data(), projections});
  return out;
}

struct GroupedShape {
  int64_t groups, in, out;
};

inline void RunGrouped(const Ops& ops, const tensor::Stream& stream, const GroupedShape& s,
                       const Matrix& w, const BF16* x, int64_t rows, BF16* out) {
  ops.grouped_linear({stream, rows, s.groups, s.in, s.out, x, w, RowFormat::kFp8E8M0, out});
}

inline std::vector<BF16> GroupedOnDevice(const GroupedShape& s, const Matrix& w,
                                         const std::vector<BF16>& x, int64_t rows) {
  const OnDevice<BF16> input(x);
  const OnDevice<BF16> out{std::vector<BF16>(static_cast<size_t>(rows * s.groups * s.out))};
  RunGrouped(TestedOps(), {}, s, w, input.get(), rows, out.get());
  return out.Read();
}

// A layer of experts whose matrices are in host and in device memory.
class TwinExperts {
 public:
  TwinExperts(WeightFormat routed, WeightFormat shared, int64_t experts, int64_t row_width,
              int64_t inner_width)
      : experts_n(experts), hidden(row_width), inner(inner_width) {
    for (int64_t e = 0; e <= experts; ++e) {
      const WeightFormat format = e == experts ? shared : routed;
      for (int i = 0; i < 3; ++i) {
        matrices_.push_back(std::make_unique<TwinMatrix>(format, i == 2 ? hidden : inner,
                                                         i == 2 ? inner : hidden, &random));
      }
    }
  }
  // The shared one is the last.
  std::vector<FeedForward> Tables(bool host, Form form) const {
    std::vector<FeedForward> out;
    for (size_t e = 0; e * 3 < matrices_.size(); ++e) {
      const auto get = [&](size_t i) {
        const TwinMatrix& m = *matrices_[e * 3 + i];
        return host ? m.Host() : m.Device(form);
      };
      out.push_back({get(0), get(1), get(2)});
    }
    return out;
  }
  Random random{14};
  int64_t experts_n, hidden, inner;
  static constexpr int64_t kTopk = 3;

 private:
  std::vector<std::unique_ptr<TwinMatrix>> matrices_;
};

struct Routed {
  std::vector<BF16> x;
  std::vector<int32_t> chosen;
  std::vector<float> weights;
  int64_t rows = 0;
};

// Ascending experts of each row at random; all rows the first ones where `crowded`.
inline Routed Route(TwinExperts* layer, int64_t rows, bool crowded, int64_t nan) {
  Routed out;
  out.rows = rows;
  out.x = InputRows(rows, layer->hidden, nan, &layer->random);
  out.weights = layer->random.Floats(rows * TwinExperts::kTopk, 0.2f, 0.5f);
  const int64_t spread = layer->experts_n - TwinExperts::kTopk + 1;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t first = crowded ? 0 : layer->random.Below(spread);
    for (int64_t i = 0; i < TwinExperts::kTopk; ++i) {
      out.chosen.push_back(static_cast<int32_t>(first + i));
    }
  }
  return out;
}

inline Routed OneRow(const Routed& all, int64_t row, int64_t hidden) {
  return {RowOfList(all.x, row, hidden), RowOfList(all.chosen, row, TwinExperts::kTopk),
          RowOfList(all.weights, row, TwinExperts::kTopk), 1};
}

inline ExpertsParams Params(const TwinExperts& layer, const Routed& routed,
                            const std::vector<FeedForward>& table) {
  ExpertsParams p;
  p.rows = routed.rows;
  p.hidden = layer.hidden;
  p.inner = layer.inner;
  p.topk = TwinExperts::kTopk;
  p.experts = {table.data(), table.size() - 1};
  p.shared = table.back();
  p.swiglu_limit = 10.0f;
  p.quantise = layer.inner % 32 == 0 ? RowFormat::kFp8E8M0 : RowFormat::kBF16;
  return p;
}

inline std::vector<BF16> ExpertsOnDevice(const TwinExperts& layer, const Routed& routed,
                                         Form form) {
  const std::vector<FeedForward> table = layer.Tables(false, form);
  const OnDevice<BF16> x(routed.x);
  const OnDevice<int32_t> chosen(routed.chosen);
  const OnDevice<float> weights(routed.weights);
  const OnDevice<BF16> out{std::vector<BF16>(routed.x.size())};
  ExpertsParams p = Params(layer, routed, table);
  p.x = x.get();
  p.chosen = chosen.get();
  p.weights = weights.get();
  p.out = out.get();
  TestedOps().experts(p);
  return out.Read();
}

inline std::vector<BF16> ExpertsOnHost(const TwinExperts& layer, const Routed& routed) {
  const std::vector<FeedForward> table = layer.Tables(true, Form::kStored);
  const base::ThreadTeam team(2);
  std::vector<BF16> out(routed.x.size());
  ExpertsParams p = Params(layer, routed, table);
  p.stream = {&team};
  p.x = routed.x.data();
  p.chosen = routed.chosen.data();
  p.weights = routed.weights.data();
  p.out = out.data();
  ReferenceOps().experts(p);
  return out;
}

}  // namespace thalweg::kernels::testing
