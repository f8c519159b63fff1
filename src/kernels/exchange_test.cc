// Rows that go to other ranks have the bytes of tensor::EncodeRow, rows that come the values of
// DecodeRow, and results are added up in fp32 in the order of slots, on every instruction set of
// this processor, whatever the width and the number of threads.
#include "kernels/exchange.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/thread_team.h"
#include "kernels/cpu/targets.h"

namespace thalweg::kernels {
namespace {

constexpr int64_t kRows = 37;

std::vector<BF16> Values(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(0, 3);
  std::vector<BF16> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(tensor::ToBF16(draw(random)));
  values.front() = tensor::ToBF16(-0.0f);
  values.back() = tensor::ToBF16(1e-6f);
  return values;
}

std::vector<int32_t> SomeRows(int64_t count) {
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < count; ++i) rows.push_back(static_cast<int32_t>(i * 7 % kRows));
  return rows;
}

void ExpectSame(const std::vector<BF16>& a, const std::vector<BF16>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i].bits, b[i].bits) << i;
}

class ExchangeOfTarget : public testing::TestWithParam<size_t> {
 protected:
  const ExchangeOps* Ops() const {
    const cpu::TargetRow& row = cpu::TargetTable()[GetParam()];
    return row.supported() ? &row.exchange() : nullptr;
  }
  const base::ThreadTeam team_{2, base::Pinning::kOff};
};

TEST_P(ExchangeOfTarget, RowsAreThoseOfTheFormats) {
  if (Ops() == nullptr) GTEST_SKIP() << "not on this processor";
  for (const RowFormat format : {RowFormat::kFp8E8M0, RowFormat::kBF16, RowFormat::kFp4E8M0}) {
    for (const int64_t width : {32, 256, 1056}) {
      const int64_t bytes = tensor::RowBytes(format, width);
      const std::vector<BF16> x = Values(kRows * width, 5);
      const std::vector<int32_t> rows = SomeRows(50);
      std::vector<uint8_t> sent(50 * static_cast<size_t>(bytes)), expected(sent.size());
      for (const base::ThreadTeam* team : {&team_, static_cast<const base::ThreadTeam*>(nullptr)})
        Ops()->pick_rows({{team}, 50, width, format, rows.data(), x.data(), sent.data()});
      for (size_t i = 0; i < rows.size(); ++i)
        tensor::EncodeRow(format, x.data() + rows[i] * width, width,
                          expected.data() + static_cast<int64_t>(i) * bytes);
      EXPECT_EQ(sent, expected);

      std::vector<BF16> got(kRows * static_cast<size_t>(width)), wanted;
      const std::vector<int32_t> came = SomeRows(kRows);
      Ops()->unpack_rows({{&team_}, kRows, width, format, came.data(), sent.data(), got.data()});
      std::vector<float> wide(static_cast<size_t>(width));
      for (const int32_t row : came) {
        tensor::DecodeRow(format, sent.data() + row * bytes, width, wide.data());
        for (const float value : wide) wanted.push_back(tensor::ToBF16(value));
      }
      ExpectSame(got, wanted);
    }
  }
}

TEST_P(ExchangeOfTarget, ResultsAreAddedInTheOrderOfSlots) {
  if (Ops() == nullptr) GTEST_SKIP() << "not on this processor";
  constexpr int64_t kTopk = 6;
  for (const int64_t width : {16, 72, 256}) {
    const std::vector<BF16> results = Values(kRows * kTopk * width, 7);
    const std::vector<BF16> shared = Values(kRows * width, 9);
    std::vector<int32_t> at;
    for (int64_t i = 0; i < kRows * kTopk; ++i)
      at.push_back(static_cast<int32_t>(i * 11 % (kRows * kTopk)));
    std::vector<BF16> got(shared.size()), wanted(shared.size());
    Ops()->sum_results(
        {{&team_}, kRows, kTopk, width, at.data(), results.data(), shared.data(), got.data()});
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t c = 0; c < width; ++c) {
        float sum = 0;
        for (int64_t k = 0; k < kTopk; ++k)
          sum += tensor::ToFloat(
              results[static_cast<size_t>(at[static_cast<size_t>(row * kTopk + k)] * width + c)]);
        const auto i = static_cast<size_t>(row * width + c);
        wanted[i] = tensor::ToBF16(sum + tensor::ToFloat(shared[i]));
      }
    ExpectSame(got, wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ExchangeOfTarget,
                         testing::Range<size_t>(0, cpu::TargetTable().size()),
                         [](const testing::TestParamInfo<size_t>& of) {
                           return std::string(cpu::TargetTable()[of.param].name);
                         });

}  // namespace
}  // namespace thalweg::kernels
