// Matrix products on the device: close to the reference for shapes off every grid, packed weights
// as stored ones, and the same bits for a row alone, in a batch of any size, beside NaN, and
// however rows meet experts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops.h"
#include "kernels/test_kit.h"

namespace thalweg::kernels::testing {
namespace {

using tensor::Memory;

class CudaProduct : public ::testing::TestWithParam<Numerics> {
 protected:
  void SetUp() override {
    const Status status = cuda::DeviceStatus();
    if (!status.ok()) GTEST_SKIP() << status.message();
  }
};

// The bodies of the test that runs.
const Ops& DeviceOps() { return cuda::CudaOps(CudaProduct::GetParam()); }

std::string NameOf(const ::testing::TestParamInfo<Numerics>& info) {
  return info.param == Numerics::kFast ? "Fast" : "Exact";
}
INSTANTIATE_TEST_SUITE_P(Numerics, CudaProduct,
                         ::testing::Values(Numerics::kExact, Numerics::kFast), NameOf);

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
    const Ops& ops = DeviceOps();
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
std::vector<BF16> InputRows(int64_t rows, int64_t width, int64_t nan, Random* random) {
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
bool SameBits(const std::vector<BF16>& a, const std::vector<BF16>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(BF16)) == 0;
}
bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// RMS of the difference over the RMS of what is wanted.
double RelativeError(const std::vector<BF16>& want, const std::vector<BF16>& got) {
  double squares = 1e-30, errors = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double w = ToFloat(want[i]), error = w - ToFloat(got[i]);
    squares += w * w;
    errors += error * error;
  }
  return std::sqrt(errors / squares);
}

struct LinearShape {
  WeightFormat format;
  int64_t in, out;
};
const LinearShape kLinearShapes[] = {
    {WeightFormat::kFp4, 64, 35},    {WeightFormat::kFp4, 2304, 200},
    {WeightFormat::kFp4, 544, 130},  {WeightFormat::kFp4, 320, 530},
    {WeightFormat::kFp8, 96, 70},    {WeightFormat::kFp8, 5120, 97},
    {WeightFormat::kFp8, 1280, 300}, {WeightFormat::kFp8, 8192, 40},
    {WeightFormat::kFp8, 2304, 70},  {WeightFormat::kBF16, 160, 33},
    {WeightFormat::kBF16, 75, 19},   {WeightFormat::kBF16, 5120, 90},
    {WeightFormat::kF32, 128, 18},   {WeightFormat::kF32, 531, 5},
    {WeightFormat::kF32, 4096, 66}};

// What a projection gives for the rows of x: bf16 and fp32.
struct LinearResult {
  std::vector<BF16> rounded;
  std::vector<float> wide;
};

LinearResult RunLinear(const Matrix& w, const std::vector<BF16>& x, int64_t rows) {
  const OnDevice<BF16> input(x);
  const auto size = static_cast<size_t>(rows * w.rows);
  const OnDevice<BF16> rounded{std::vector<BF16>(size)};
  const OnDevice<float> wide{std::vector<float>(size)};
  const Projection projections[] = {{w, rounded.get(), nullptr}, {w, nullptr, wide.get()}};
  DeviceOps().linear({{}, rows, w.cols, input.get(), projections});
  return {rounded.Read(), wide.Read()};
}

std::vector<BF16> ReferenceLinear(const Matrix& w, const std::vector<BF16>& x, int64_t rows) {
  const base::ThreadTeam team(2);
  std::vector<BF16> out(static_cast<size_t>(rows * w.rows));
  const Projection projections[] = {{w, out.data(), nullptr}};
  ReferenceOps().linear({{&team}, rows, w.cols, x.data(), projections});
  return out;
}

TEST_P(CudaProduct, LinearIsCloseToTheReference) {
  for (const LinearShape& shape : kLinearShapes) {
    Random random(11);
    const TwinMatrix w(shape.format, shape.out, shape.in, &random);
    for (const int64_t rows : {0, 1, 7, 8, 9, 33, 130}) {
      const std::vector<BF16> x = InputRows(rows, shape.in, 0, &random);
      const std::vector<BF16> want = ReferenceLinear(w.Host(), x, rows);
      for (const Form form : {Form::kPacked, Form::kStored}) {
        EXPECT_LE(RelativeError(want, RunLinear(w.Device(form), x, rows).rounded), 2e-3)
            << static_cast<int>(shape.format) << ": " << shape.in << " to " << shape.out
            << ", rows " << rows << ", form " << static_cast<int>(form);
      }
    }
  }
}

TEST_P(CudaProduct, LinearGivesARowTheSameBitsAloneAndBesideAnyOthers) {
  for (const LinearShape& shape : kLinearShapes) {
    Random random(12);
    const TwinMatrix w(shape.format, shape.out, shape.in, &random);
    const std::vector<BF16> x = InputRows(150, shape.in, 4, &random);
    for (const Form form : {Form::kPacked, Form::kStored}) {
      const LinearResult all = RunLinear(w.Device(form), x, 150);
      for (const int64_t row : {0, 1, 2, 5, 8, 9, 62, 65, 126, 128, 149}) {
        // With exact numerics, whatever the form.
        const Form other = GetParam() == Numerics::kExact ? Form::kPacked : form;
        const LinearResult alone = RunLinear(w.Device(other), RowOfList(x, row, shape.in), 1);
        EXPECT_TRUE(SameBits(alone.rounded, RowOfList(all.rounded, row, shape.out)))
            << static_cast<int>(shape.format) << ": " << shape.in << ", row " << row << ", form "
            << static_cast<int>(form);
        EXPECT_TRUE(SameBits(alone.wide, RowOfList(all.wide, row, shape.out)));
      }
      for (const int64_t rows : {3, 8, 20, 64, 65}) {
        const std::vector<BF16> some(x.begin(), x.begin() + rows * shape.in);
        const LinearResult part = RunLinear(w.Device(form), some, rows);
        EXPECT_TRUE(
            SameBits(RowOfList(part.rounded, 2, shape.out), RowOfList(all.rounded, 2, shape.out)))
            << static_cast<int>(shape.format) << ": " << shape.in << ", rows " << rows;
      }
    }
  }
}

std::vector<bool> WhereNaN(const std::vector<BF16>& x) {
  std::vector<bool> out;
  for (const BF16 value : x) out.push_back(std::isnan(ToFloat(value)));
  return out;
}

TEST_P(CudaProduct, NaNCodesAndNaNScalesMakeNaNOfTheirOutputsAlone) {
  constexpr int64_t kOut = 100, kIn = 192, kGroups = kIn / 32;
  for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kFp4}) {
    Random random(15);
    const bool fp8 = format == WeightFormat::kFp8;
    std::vector<uint8_t> codes = random.Codes(kOut * kIn / (fp8 ? 1 : 2));
    std::vector<uint8_t> scales(static_cast<size_t>(kOut * kGroups), 125);
    if (fp8) {
      for (uint8_t& code : codes) code = (code & 127) == 127 ? 1 : code;
      codes[5 * kIn + 70] = 0x7f;
      codes[44 * kIn + 191] = 0xff;
      scales[3 * kGroups + 2] = 255;  // rows 96 to 99
    } else {
      scales[7 * kGroups + 3] = 255;
      scales[90 * kGroups] = 255;
    }
    const Matrix host{
        .format = format, .data = codes.data(), .scales = scales.data(), .rows = kOut, .cols = kIn};
    const DeviceMatrix device(host);
    for (const int64_t rows : {1, 20, 130}) {
      const std::vector<BF16> x = InputRows(rows, kIn, 0, &random);
      const std::vector<bool> want = WhereNaN(ReferenceLinear(host, x, rows));
      EXPECT_EQ(std::count(want.begin(), want.end(), true), (fp8 ? 6 : 2) * rows);
      for (const Form form : {Form::kPacked, Form::kStored}) {
        EXPECT_EQ(WhereNaN(RunLinear(device.Get(form), x, rows).rounded), want)
            << "fp" << (fp8 ? 8 : 4) << " rows " << rows << " form " << static_cast<int>(form);
      }
    }
  }
}

struct GroupedShape {
  int64_t groups, in, out;
};

void RunGrouped(const Ops& ops, const tensor::Stream& stream, const GroupedShape& s,
                const Matrix& w, const BF16* x, int64_t rows, BF16* out) {
  ops.grouped_linear({stream, rows, s.groups, s.in, s.out, x, w, RowFormat::kFp8E8M0, out});
}

std::vector<BF16> GroupedOnDevice(const GroupedShape& s, const Matrix& w,
                                  const std::vector<BF16>& x, int64_t rows) {
  const OnDevice<BF16> input(x);
  const OnDevice<BF16> out{std::vector<BF16>(static_cast<size_t>(rows * s.groups * s.out))};
  RunGrouped(DeviceOps(), {}, s, w, input.get(), rows, out.get());
  return out.Read();
}

TEST_P(CudaProduct, GroupedLinearIsCloseAndInvariant) {
  for (const GroupedShape& s :
       {GroupedShape{4, 96, 40}, GroupedShape{3, 2048, 64}, GroupedShape{2, 160, 96}}) {
    Random random(13);
    const TwinMatrix w(WeightFormat::kFp8, s.groups * s.out, s.in, &random, Inputs::kPlain);
    const int64_t width = s.groups * s.in, out = s.groups * s.out;
    const std::vector<BF16> x = InputRows(140, width, 0, &random);
    const base::ThreadTeam team(2);
    std::vector<BF16> want(static_cast<size_t>(140 * out));
    RunGrouped(ReferenceOps(), {&team}, s, w.Host(), x.data(), 140, want.data());
    const std::vector<BF16> all = GroupedOnDevice(s, w.Device(Form::kPacked), x, 140);
    EXPECT_LE(RelativeError(want, all), 1.5e-2) << s.in;
    EXPECT_TRUE(SameBits(all, GroupedOnDevice(s, w.Device(Form::kStored), x, 140))) << s.in;
    for (const int64_t row : {0, 7, 64, 139}) {
      EXPECT_TRUE(SameBits(GroupedOnDevice(s, w.Device(Form::kPacked), RowOfList(x, row, width), 1),
                           RowOfList(all, row, out)))
          << s.in << " row " << row;
    }
  }
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
Routed Route(TwinExperts* layer, int64_t rows, bool crowded, int64_t nan) {
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

Routed OneRow(const Routed& all, int64_t row, int64_t hidden) {
  return {RowOfList(all.x, row, hidden), RowOfList(all.chosen, row, TwinExperts::kTopk),
          RowOfList(all.weights, row, TwinExperts::kTopk), 1};
}

ExpertsParams Params(const TwinExperts& layer, const Routed& routed,
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

std::vector<BF16> ExpertsOnDevice(const TwinExperts& layer, const Routed& routed, Form form) {
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
  DeviceOps().experts(p);
  return out.Read();
}

std::vector<BF16> ExpertsOnHost(const TwinExperts& layer, const Routed& routed) {
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

void CheckExperts(TwinExperts* layer, const std::string& name) {
  // So many rows that every width of tile has its turn.
  for (const bool crowded : {false, true}) {
    for (const int64_t rows : {1, 5, 30, 90, 330}) {
      const Routed routed = Route(layer, rows, crowded, 0);
      const std::vector<BF16> host = ExpertsOnHost(*layer, routed);
      for (const Form form : {Form::kPacked, Form::kStored}) {
        EXPECT_LE(RelativeError(host, ExpertsOnDevice(*layer, routed, form)), 1.5e-2)
            << name << " rows " << rows << (crowded ? " crowded" : "") << " form "
            << static_cast<int>(form);
      }
    }
    for (const int64_t rows : {2, 6, 8, 9, 17, 40, 100, 400}) {
      const Routed routed = Route(layer, rows, crowded, 4);
      for (const Form form : {Form::kPacked, Form::kStored}) {
        const std::vector<BF16> all = ExpertsOnDevice(*layer, routed, form);
        for (int64_t row = 0; row < rows; row += rows < 20 ? 1 : rows / 8) {
          if (row % 4 == 3) continue;
          // With exact numerics, whatever the form.
          const Form other = CudaProduct::GetParam() == Numerics::kExact ? Form::kPacked : form;
          EXPECT_TRUE(SameBits(ExpertsOnDevice(*layer, OneRow(routed, row, layer->hidden), other),
                               RowOfList(all, row, layer->hidden)))
              << name << " rows " << rows << " row " << row << (crowded ? " crowded" : "")
              << " form " << static_cast<int>(form);
        }
      }
    }
  }
}

TEST_P(CudaProduct, ExpertsAreCloseAndInvariant) {
  TwinExperts fp4(WeightFormat::kFp4, WeightFormat::kFp8, 9, 192, 160);
  CheckExperts(&fp4, "fp4");
  TwinExperts large(WeightFormat::kFp4, WeightFormat::kFp8, 4, 640, 2304);
  CheckExperts(&large, "fp4 large");
  TwinExperts whole(WeightFormat::kFp4, WeightFormat::kFp8, 6, 512, 256);
  CheckExperts(&whole, "fp4 whole");
  TwinExperts fp8(WeightFormat::kFp8, WeightFormat::kFp8, 5, 96, 96);
  CheckExperts(&fp8, "fp8");
  TwinExperts plain(WeightFormat::kBF16, WeightFormat::kBF16, 5, 90, 45);
  CheckExperts(&plain, "bf16");
}

}  // namespace
}  // namespace thalweg::kernels::testing
