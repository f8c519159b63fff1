// Choices in total order on every backend: higher scores first, equal ones by the lowest index, for
// experts, index entries and candidate blocks; selections agree with a plain computation wherever
// scores are clearly apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/backends.h"
#include "kernels/test_kit.h"

namespace thalweg::kernels::testing {
namespace {

std::vector<const Ops*> AllOps() {
  std::vector<const Ops*> all = {&ReferenceOps()};
  if (DeviceOps() != nullptr) return {all.front(), DeviceOps()};
  for (const CpuTarget& target : CpuTargets()) {
    if (target.supported) all.push_back(target.ops);
  }
  return all;
}

constexpr int64_t kHidden = 32;

// A router whose every expert has the same weights.
std::vector<int32_t> ChosenOfEqualExperts(const Ops& ops, const std::vector<float>& bias,
                                          int64_t topk) {
  const base::ThreadTeam team(1);
  const auto experts = static_cast<int64_t>(bias.size());
  const std::vector<BF16> weights(bias.size() * kHidden, tensor::ToBF16(0.5f));
  const std::vector<BF16> x(kHidden, tensor::ToBF16(0.25f));
  std::vector<int32_t> chosen(static_cast<size_t>(topk));
  std::vector<float> shares(chosen.size());
  ops.gate({{&team},
            1,
            kHidden,
            experts,
            topk,
            x.data(),
            {WeightFormat::kBF16, weights.data(), nullptr, experts, kHidden},
            bias.data(),
            nullptr,
            nullptr,
            1.5f,
            chosen.data(),
            shares.data()});
  for (const float share : shares) EXPECT_NEAR(share, 1.5f / static_cast<float>(topk), 1e-5);
  return chosen;
}

TEST(Gate, EqualScoresGoToTheLowestExperts) {
  for (const Ops* ops : AllOps()) {
    EXPECT_EQ(ChosenOfEqualExperts(*ops, std::vector<float>(20, 0.0f), 3),
              (std::vector<int32_t>{0, 1, 2}));
    std::vector<float> bias(20, 0.0f);
    bias[11] = bias[17] = 1.0f;
    EXPECT_EQ(ChosenOfEqualExperts(*ops, bias, 4), (std::vector<int32_t>{0, 1, 11, 17}));
  }
}

// One query row whose score of key g is made of `level[g]`: keys are multiples of one vector.
class IndexRow {
 public:
  explicit IndexRow(const std::vector<float>& levels)
      : visible_(static_cast<int64_t>(levels.size())) {
    const int64_t row_bytes = tensor::RowBytes(RowFormat::kBF16, kWidth);
    pool_.resize(levels.size() * static_cast<size_t>(row_bytes));
    for (size_t g = 0; g < levels.size(); ++g) {
      const std::vector<BF16> key(kWidth, tensor::ToBF16(levels[g]));
      tensor::EncodeRow(RowFormat::kBF16, key.data(), kWidth,
                        pool_.data() + g * static_cast<size_t>(row_bytes));
    }
    keys_ = {pool_.data(), &block_, visible_,         visible_ * row_bytes,
             row_bytes,    kWidth,  RowFormat::kBF16, 1};
  }

  std::vector<int32_t> Select(const Ops& ops, int64_t topk, const CandidateSets* restrict_to,
                              CandidateSets* make) const {
    const base::ThreadTeam team(2);
    std::vector<BF16> query(kWidth, tensor::ToBF16(1.0f));
    BF16 weight = tensor::ToBF16(1.0f);
    const int32_t sequence = 0;
    std::vector<int32_t> selection(static_cast<size_t>(topk));
    ops.index_select({{&team},
                      1,
                      1,
                      kWidth,
                      topk,
                      query.data(),
                      &weight,
                      1.0f,
                      {nullptr, nullptr, 0},
                      RowFormat::kFp4E8M0,
                      &keys_,
                      &sequence,
                      &visible_,
                      0,
                      restrict_to,
                      make,
                      selection.data()});
    return selection;
  }

 private:
  static constexpr int64_t kWidth = 32;
  int64_t visible_;
  int32_t block_ = 0;
  std::vector<uint8_t> pool_;
  PagedRows keys_;
};

TEST(IndexSelect, EqualScoresGoToTheLowestEntries) {
  for (const Ops* ops : AllOps()) {
    EXPECT_EQ(IndexRow(std::vector<float>(50, 1.0f)).Select(*ops, 5, nullptr, nullptr),
              (std::vector<int32_t>{0, 1, 2, 3, 4}));
    std::vector<float> levels(50, 1.0f);
    levels[30] = 2.0f;
    levels[7] = levels[49] = 3.0f;
    levels[0] = -1.0f;
    EXPECT_EQ(IndexRow(levels).Select(*ops, 5, nullptr, nullptr),
              (std::vector<int32_t>{1, 2, 7, 30, 49}));
    // Negative dots count as zero: all of them are ties.
    EXPECT_EQ(IndexRow(std::vector<float>(9, -1.0f)).Select(*ops, 4, nullptr, nullptr),
              (std::vector<int32_t>{0, 1, 2, 3}));
  }
}

TEST(IndexSelect, EverythingVisibleIsSelectedWhenItFits) {
  for (const Ops* ops : AllOps()) {
    const IndexRow row(std::vector<float>(3, 1.0f));
    EXPECT_EQ(row.Select(*ops, 5, nullptr, nullptr), (std::vector<int32_t>{0, 1, 2, -1, -1}));
    EXPECT_EQ(IndexRow({}).Select(*ops, 2, nullptr, nullptr), (std::vector<int32_t>{-1, -1}));
  }
}

struct Sets {
  std::vector<int32_t> blocks;
  int64_t count = -7;
  CandidateSets view;
  Sets(int64_t capacity, int64_t block_size)
      : blocks(static_cast<size_t>(capacity)), view{blocks.data(), &count, capacity, block_size} {}
};

TEST(IndexSelect, CandidateBlocksAreTheBestOnesAndTheNewest) {
  std::vector<float> levels(43, 1.0f);  // blocks of 4: 0..10, the last one short
  levels[21] = 4.0f;                    // block 5
  for (const Ops* ops : AllOps()) {
    Sets sets(4, 4);
    IndexRow(levels).Select(*ops, 3, nullptr, &sets.view);
    EXPECT_EQ(sets.count, 4);
    EXPECT_EQ(sets.blocks, (std::vector<int32_t>{0, 1, 5, 10}));
    Sets all(11, 4);
    IndexRow(levels).Select(*ops, 3, nullptr, &all.view);
    EXPECT_EQ(all.count, -1);  // everything fits: no restriction
  }
}

TEST(IndexSelect, ChoosesInsideTheGivenBlocksOnly) {
  std::vector<float> levels(43, 1.0f);
  levels[0] = 9.0f;   // outside
  levels[21] = 4.0f;  // block 5
  levels[42] = 2.0f;  // block 10, of three entries
  for (const Ops* ops : AllOps()) {
    Sets sets(3, 4);
    sets.blocks = {2, 5, 10};
    sets.view.blocks = sets.blocks.data();
    sets.count = 3;
    EXPECT_EQ(IndexRow(levels).Select(*ops, 4, &sets.view, nullptr),
              (std::vector<int32_t>{8, 9, 21, 42}));
    EXPECT_EQ(IndexRow(levels).Select(*ops, 13, &sets.view, nullptr),
              (std::vector<int32_t>{8, 9, 10, 11, 20, 21, 22, 23, 40, 41, 42, -1, -1}));
    sets.count = -1;
    EXPECT_EQ(IndexRow(levels).Select(*ops, 2, &sets.view, nullptr), (std::vector<int32_t>{0, 21}));
  }
}

// The topk largest of `levels`, ascending; no two levels are equal.
std::vector<int32_t> Largest(const std::vector<float>& levels, size_t topk) {
  std::vector<int32_t> order(levels.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return levels[static_cast<size_t>(a)] > levels[static_cast<size_t>(b)];
  });
  order.resize(topk);
  std::sort(order.begin(), order.end());
  return order;
}

TEST(IndexSelect, AgreesWithSortingWhereScoresAreApart) {
  // 128 levels a bf16 step apart, shuffled.
  std::vector<float> levels;
  for (int i = 0; i < 128; ++i) levels.push_back(1.0f + static_cast<float>(i * 77 % 128) / 128.0f);
  for (const Ops* ops : AllOps()) {
    for (const int64_t topk : {1, 2, 15, 64, 127}) {
      EXPECT_EQ(IndexRow(levels).Select(*ops, topk, nullptr, nullptr),
                Largest(levels, static_cast<size_t>(topk)));
    }
  }
}

}  // namespace
}  // namespace thalweg::kernels::testing
