// Matrix products on the device: close to the reference for shapes off every grid, packed weights
// as stored ones, and the same bits for a row alone, in a batch of any size, beside NaN, and
// however rows meet experts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/product_kit.h"

namespace thalweg::kernels::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Numerics, CudaProduct,
                         ::testing::Values(Numerics::kExact, Numerics::kFast), NameOf);

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
