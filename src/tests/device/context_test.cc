// Window rows that are copied as soon as they are made, with nothing in between, are copied as they
// are: the draft module's context is made so.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "tensor/buffer.h"
#include "tests/device/device.h"

namespace thalweg::tests {
namespace {

constexpr int64_t kRows = 70, kWidth = 128, kRope = 32;
constexpr auto kFormat = tensor::RowFormat::kFp8E8M0;

class DeviceContext : public OnDevice {};

TEST_F(DeviceContext, CopiesOfWindowRowsJustMade) {
  const tensor::Memory& memory = *ops().memory;
  void* queue = memory.open_queue();
  const tensor::Stream stream{.device = queue};
  const int64_t bytes = tensor::RowBytes(kFormat, kWidth);
  std::vector<tensor::BF16> values;
  for (uint32_t i = 0; i < kRows * kWidth; ++i) {
    const uint32_t word = base::Philox4x32({i, 0, 0, 0}, {7, 7})[0];
    values.push_back(tensor::ToBF16(static_cast<float>(word % 2000) / 1000 - 1));
  }
  const std::vector<tensor::BF16> ones(kWidth, tensor::ToBF16(1));
  const std::vector<float> cos(kRows * kRope / 2, 1), sin(kRows * kRope / 2, 0);
  const auto size = [](const std::vector<tensor::BF16>& v) {
    return static_cast<int64_t>(v.size() * sizeof(tensor::BF16));
  };
  tensor::Buffer kv(size(values), memory), weight(size(ones), memory);
  tensor::Buffer made(kRows * bytes, memory), copied(kRows * bytes, memory);
  memory.upload(stream, kv.data(), values.data(), size(values));
  memory.upload(stream, weight.data(), ones.data(), size(ones));
  std::vector<const void*> from;
  std::vector<void*> to;
  for (int64_t r = 0; r < kRows; ++r) {
    from.push_back(made.as<uint8_t>() + r * bytes);
    to.push_back(copied.as<uint8_t>() + (kRows - 1 - r) * bytes);
  }
  ops().window_rows({.stream = stream,
                     .rows = kRows,
                     .width = kWidth,
                     .kv = kv.as<tensor::BF16>(),
                     .norm_weight = weight.as<tensor::BF16>(),
                     .norm_eps = 1e-6f,
                     .rotation = {cos.data(), sin.data(), kRope},
                     .format = kFormat,
                     .out = made.as<uint8_t>()});
  ops().copy_rows(
      {.stream = stream, .count = kRows, .bytes = bytes, .from = from.data(), .to = to.data()});
  std::vector<uint8_t> rows(static_cast<size_t>(kRows * bytes)), copies(rows.size());
  memory.download(stream, rows.data(), made.data(), kRows * bytes);
  memory.download(stream, copies.data(), copied.data(), kRows * bytes);
  EXPECT_TRUE(memory.synchronize(stream).ok());
  for (int64_t r = 0; r < kRows; ++r) {
    const auto row = rows.begin() + r * bytes, copy = copies.begin() + (kRows - 1 - r) * bytes;
    EXPECT_TRUE(std::equal(row, row + bytes, copy)) << r;
    EXPECT_TRUE(std::any_of(row, row + bytes, [](uint8_t b) { return b != 0; })) << r;
  }
  memory.close_queue(queue);
}

}  // namespace
}  // namespace thalweg::tests
