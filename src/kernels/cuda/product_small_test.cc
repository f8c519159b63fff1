// Every body of the matrix products, each by shapes that take it in a moment: few enough sums for
// tools that watch every access (gpu_check.sh --sanitize), enough of K and of tiles that rings go
// round and blocks have more than one tile. Products are close to the reference where that is
// cheap, and a row has the same bits alone.
#include <gtest/gtest.h>

#include "kernels/cuda/product_kit.h"

namespace thalweg::kernels::testing {
namespace {

class CudaProductSmall : public CudaProduct {};
INSTANTIATE_TEST_SUITE_P(Numerics, CudaProductSmall,
                         ::testing::Values(Numerics::kExact, Numerics::kFast), NameOf);

constexpr double kClose = 2e-3, kCloseQuantised = 1.5e-2;  // RelativeError

struct SmallShape {
  WeightFormat format;
  int64_t in, out;
  std::vector<int64_t> rows;
};

std::string Told(const SmallShape& s, int64_t rows) {
  return "format " + std::to_string(static_cast<int>(s.format)) + ": " + std::to_string(s.in) +
         " to " + std::to_string(s.out) + ", rows " + std::to_string(rows);
}

// The last row has the bits that it has alone; all are close to the reference if `compare`.
void CheckLinear(const SmallShape& shape, const Matrix& host, const Matrix& device, bool compare) {
  Random random(21);
  for (const int64_t rows : shape.rows) {
    const std::vector<BF16> x = InputRows(rows, shape.in, 0, &random);
    const LinearResult all = RunLinear(device, x, rows);
    if (compare) {
      EXPECT_LE(RelativeError(ReferenceLinear(host, x, rows), all.rounded), kClose)
          << Told(shape, rows);
    }
    const LinearResult last = RunLinear(device, RowOfList(x, rows - 1, shape.in), 1);
    EXPECT_TRUE(SameBits(last.rounded, RowOfList(all.rounded, rows - 1, shape.out)))
        << Told(shape, rows);
    EXPECT_TRUE(SameBits(last.wide, RowOfList(all.wide, rows - 1, shape.out))) << Told(shape, rows);
  }
}

void CheckShapes(const std::vector<SmallShape>& shapes, Form form, bool compare) {
  for (const SmallShape& shape : shapes) {
    Random random(22);
    const TwinMatrix w(shape.format, shape.out, shape.in, &random);
    CheckLinear(shape, w.Host(), w.Device(form), compare);
  }
}

TEST_P(CudaProductSmall, LinearOfFp8) {
  CheckShapes(
      {
          {WeightFormat::kFp8, 768, 70, {1, 4}},      // one rank of K
          {WeightFormat::kFp8, 8192, 40, {2, 8, 9}},  // eight
          {WeightFormat::kFp8, 2304, 70, {12, 30, 50}},
          {WeightFormat::kFp8, 640, 130, {9, 20, 50, 130}},
      },
      Form::kPacked, true);
}

TEST_P(CudaProductSmall, LinearOfFp4) {
  CheckShapes(
      {
          {WeightFormat::kFp4, 1984, 70, {5}},
          {WeightFormat::kFp4, 2304, 200, {3, 12, 30, 50}},
          {WeightFormat::kFp4, 640, 130, {50, 130}},
          {WeightFormat::kFp4, 544, 130, {5, 70}},  // off the grid of units
      },
      Form::kPacked, true);
}

// Blocks go from tile to tile, and where there are so many tiles other bodies are chosen.
TEST_P(CudaProductSmall, LinearOfManyTiles) {
  CheckShapes({{WeightFormat::kFp8, 128, 45056, {2, 9}}, {WeightFormat::kFp8, 320, 34560, {9}}},
              Form::kPacked, false);
  CheckShapes({{WeightFormat::kFp4, 640, 34560, {9}}}, Form::kPacked, false);
  CheckShapes({{WeightFormat::kFp4, 512, 8576, {130}}, {WeightFormat::kFp8, 640, 8576, {130}}},
              Form::kPacked, false);
}

TEST_P(CudaProductSmall, LinearOfOtherWeights) {
  CheckShapes(
      {
          {WeightFormat::kFp4, 96, 70, {5, 20}},
          {WeightFormat::kFp8, 800, 70, {5, 20}},
          {WeightFormat::kBF16, 160, 33, {5, 20}},
          {WeightFormat::kBF16, 75, 19, {5, 20}},  // rows cannot be copied in pieces
          {WeightFormat::kBF16, 2048, 33, {20}},   // a warp for each rank of K
          {WeightFormat::kBF16, 640, 70, {70}},
          {WeightFormat::kF32, 531, 5, {5, 20}},
          {WeightFormat::kF32, 448, 18, {5, 20}},
      },
      Form::kStored, true);
}

// Scales of neighbouring rows that are too far apart to go into the codes of e4m3.
TEST_P(CudaProductSmall, LinearOfScalesThatAreApart) {
  const SmallShape shape = {WeightFormat::kFp4, 1280, 300, {5, 20, 70}};
  Random random(23);
  const std::vector<uint8_t> codes = random.Codes(shape.out * shape.in / 2);
  std::vector<uint8_t> scales(static_cast<size_t>(shape.out * shape.in / 32));
  for (uint8_t& scale : scales) scale = static_cast<uint8_t>(100 + random.Below(25));
  const Matrix host = {.format = shape.format,
                       .data = codes.data(),
                       .scales = scales.data(),
                       .rows = shape.out,
                       .cols = shape.in};
  const DeviceMatrix device(host);
  CheckLinear(shape, host, device.Get(Form::kPacked), true);
}

void CheckGrouped(const GroupedShape& s, const std::vector<int64_t>& counts, bool compare) {
  Random random(24);
  const TwinMatrix w(WeightFormat::kFp8, s.groups * s.out, s.in, &random, Inputs::kPlain);
  const int64_t width = s.groups * s.in, out = s.groups * s.out;
  for (const int64_t rows : counts) {
    const std::vector<BF16> x = InputRows(rows, width, 0, &random);
    const std::vector<BF16> all = GroupedOnDevice(s, w.Device(Form::kPacked), x, rows);
    const std::vector<BF16> last = RowOfList(x, rows - 1, width);
    EXPECT_TRUE(SameBits(GroupedOnDevice(s, w.Device(Form::kPacked), last, 1),
                         RowOfList(all, rows - 1, out)))
        << s.in << " rows " << rows;
    if (!compare) continue;
    EXPECT_TRUE(SameBits(all, GroupedOnDevice(s, w.Device(Form::kStored), x, rows))) << s.in;
    const base::ThreadTeam team(2);
    std::vector<BF16> want(all.size());
    RunGrouped(ReferenceOps(), {&team}, s, w.Host(), x.data(), rows, want.data());
    EXPECT_LE(RelativeError(want, all), kCloseQuantised) << s.in << " rows " << rows;
  }
}

TEST_P(CudaProductSmall, Grouped) {
  CheckGrouped({3, 2048, 64}, {2, 7, 12, 30, 50, 70}, true);
  CheckGrouped({3, 640, 64}, {4, 7, 50, 130}, true);
  CheckGrouped({4, 160, 40}, {5, 70}, true);
  CheckGrouped({8, 320, 2112}, {9, 130}, false);
}

struct SmallLayer {
  WeightFormat routed, shared;
  int64_t experts, hidden, inner;
};

void CheckExperts(const SmallLayer& s, const std::vector<int64_t>& counts, Form form,
                  bool compare) {
  TwinExperts layer(s.routed, s.shared, s.experts, s.hidden, s.inner);
  for (const int64_t rows : counts) {
    const Routed routed = Route(&layer, rows, false, 0);
    const std::vector<BF16> all = ExpertsOnDevice(layer, routed, form);
    const std::string told = std::to_string(s.hidden) + " to " + std::to_string(s.inner) +
                             ", rows " + std::to_string(rows);
    if (compare) {
      EXPECT_LE(RelativeError(ExpertsOnHost(layer, routed), all), kCloseQuantised) << told;
    }
    EXPECT_TRUE(SameBits(ExpertsOnDevice(layer, OneRow(routed, rows - 1, s.hidden), form),
                         RowOfList(all, rows - 1, s.hidden)))
        << told;
  }
}

// So many rows that every width of tile has its turn, at K that a ring does not hold.
TEST_P(CudaProductSmall, ExpertsThatReadMuch) {
  CheckExperts({WeightFormat::kFp4, WeightFormat::kFp8, 4, 1280, 256}, {2, 5, 20, 40, 70, 110},
               Form::kPacked, true);
}
TEST_P(CudaProductSmall, ExpertsThatWriteMuch) {
  CheckExperts({WeightFormat::kFp4, WeightFormat::kFp8, 4, 256, 1280}, {2, 5, 20, 40, 70, 110},
               Form::kPacked, false);
}
TEST_P(CudaProductSmall, ExpertsOfManyRows) {
  CheckExperts({WeightFormat::kFp4, WeightFormat::kFp8, 3, 640, 256}, {260}, Form::kPacked, false);
}
TEST_P(CudaProductSmall, ExpertsOfFp8) {
  CheckExperts({WeightFormat::kFp8, WeightFormat::kFp8, 3, 640, 128}, {5, 20, 70}, Form::kPacked,
               true);
}
TEST_P(CudaProductSmall, ExpertsOffEveryGrid) {
  CheckExperts({WeightFormat::kFp4, WeightFormat::kFp8, 3, 96, 160}, {2, 5, 20, 70}, Form::kPacked,
               true);
  CheckExperts({WeightFormat::kFp4, WeightFormat::kFp8, 3, 96, 160}, {5, 20}, Form::kStored, true);
  CheckExperts({WeightFormat::kBF16, WeightFormat::kBF16, 3, 90, 45}, {5, 20}, Form::kStored, true);
}

}  // namespace
}  // namespace thalweg::kernels::testing
