// Formats round as the spec says: every code survives a round trip, ties go to the even code,
// scales follow the bits.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/formats.h"
#include "tensor/row_format.h"
#include "tensor/view.h"

namespace thalweg::tensor {
namespace {

TEST(E4M3, EveryCodeRoundTrips) {
  for (int code = 0; code < 256; ++code) {
    const float value = E4M3ToFloat(static_cast<uint8_t>(code));
    if (std::isnan(value)) continue;
    EXPECT_EQ(FloatToE4M3(value), code) << value;
  }
}

TEST(E4M3, NearestEvenBetweenNeighbours) {
  for (int code = 0; code < 0x7e; ++code) {
    const float low = E4M3ToFloat(static_cast<uint8_t>(code));
    const float high = E4M3ToFloat(static_cast<uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(FloatToE4M3(middle), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(FloatToE4M3(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(FloatToE4M3(std::nextafter(middle, 1e9f)), code + 1);
  }
  EXPECT_EQ(FloatToE4M3(1e9f), 0x7e);
  EXPECT_EQ(FloatToE4M3(-1e9f), 0xfe);
}

TEST(E2M1, TiesGoToTheEvenCode) {
  for (int code = 0; code < 7; ++code) {
    const float low = kE2M1Values[code];
    const float high = kE2M1Values[code + 1];
    const float middle = (low + high) / 2;
    EXPECT_EQ(FloatToE2M1(middle), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(FloatToE2M1(-middle), 8 + (code % 2 == 0 ? code : code + 1));
    EXPECT_EQ(FloatToE2M1(low), code);
  }
  EXPECT_EQ(FloatToE2M1(100.0f), 7);
}

TEST(BF16, RoundsToNearestEven) {
  EXPECT_EQ(ToBF16(1.0f).bits, 0x3f80);
  EXPECT_EQ(ToBF16(1.0f + 0x1p-8f).bits, 0x3f80);
  EXPECT_EQ(ToBF16(1.0f + 3 * 0x1p-8f).bits, 0x3f82);
  EXPECT_TRUE(std::isnan(ToFloat(ToBF16(NAN))));
}

TEST(E8M0, CeilFromBits) {
  EXPECT_EQ(E8M0CeilCode(1.0f), 127);
  EXPECT_EQ(E8M0CeilCode(std::nextafter(1.0f, 2.0f)), 128);
  EXPECT_EQ(E8M0ToFloat(127), 1.0f);
}

TEST(Rows, BytesOfTheRelease) {
  EXPECT_EQ(RowBytes(RowFormat::kFp4E4M3, 512), 288);
  EXPECT_EQ(RowBytes(RowFormat::kFp4E8M0, 128), 68);
  EXPECT_EQ(RowBytes(RowFormat::kFp8E8M0, 512), 528);
}

TEST(Rows, RoundTripIsIdempotentAndEqualsEncodeDecode) {
  constexpr int64_t kWidth = 96;
  std::vector<BF16> row(kWidth), once(kWidth), twice(kWidth);
  for (int64_t i = 0; i < kWidth; ++i)
    row[i] = ToBF16(std::sin(static_cast<float>(i * i)) *
                    std::ldexp(1.0f, static_cast<int>(i % 13) - 6));
  for (const RowFormat format :
       {RowFormat::kBF16, RowFormat::kFp8E8M0, RowFormat::kFp4E8M0, RowFormat::kFp4E4M3}) {
    std::vector<uint8_t> bytes(RowBytes(format, kWidth));
    std::vector<float> values(kWidth);
    EncodeRow(format, row.data(), kWidth, bytes.data());
    DecodeRow(format, bytes.data(), kWidth, values.data());
    RoundTripRow(format, row.data(), kWidth, once.data());
    for (int64_t i = 0; i < kWidth; ++i) EXPECT_EQ(ToFloat(once[i]), values[i]);
    if (format == RowFormat::kFp4E4M3) continue;  // its scale is rounded, so a second pass may move
    RoundTripRow(format, once.data(), kWidth, twice.data());
    for (int64_t i = 0; i < kWidth; ++i) EXPECT_EQ(once[i].bits, twice[i].bits);
  }
}

TEST(Shapes, ElementsAndText) {
  EXPECT_EQ((Shape{2, 3}).elements(), 6);
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ((Shape{2, 3}).ToString(), "[2, 3]");
}

TEST(DTypes, NamesRoundTrip) {
  for (const char* name :
       {"F32", "BF16", "F8_E4M3", "F8_E8M0", "I8", "U8", "I32", "I64", "F16", "BOOL"}) {
    ASSERT_TRUE(ParseSafetensorsName(name).has_value());
    EXPECT_EQ(SafetensorsName(*ParseSafetensorsName(name)), name);
  }
  EXPECT_FALSE(ParseSafetensorsName("F4").has_value());
}

TEST(Arenas, MarkAndRelease) {
  Arena arena(1024);
  arena.Take<float>(3);
  const int64_t mark = arena.Mark();
  arena.Take<float>(16);
  arena.Release(mark);
  EXPECT_EQ(arena.Mark(), mark);
  EXPECT_GE(arena.peak_bytes(), 64 + 64);
}

}  // namespace
}  // namespace thalweg::tensor
