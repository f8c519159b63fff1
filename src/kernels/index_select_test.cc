// Index selection over FP4 keys: exactly the best entries of a plain model that scores in the order
// which the cpu backend promises (groups of 32 columns, then heads, in fp32), whatever the shape,
// the ties, the order of scores, the cut into parts, and whatever lies in keys out of sight.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/backends.h"
#include "kernels/test_kit.h"

namespace thalweg::kernels::testing {
namespace {

constexpr RowFormat kFormat = RowFormat::kFp4E8M0;
constexpr int64_t kRowsPerBlock = 48;

struct Shape {
  int64_t heads, width, keys, topk;
};

enum class Order { kRandom, kRising, kFewLevels };

// Keys of one sequence on scrambled pages, and the queries of some rows.
class IndexProblem {
 public:
  IndexProblem(const Shape& shape, int64_t rows, Order order, uint32_t seed)
      : shape_(shape), random_(seed) {
    const int64_t pages = shape.keys / kRowsPerBlock + 1;
    const int64_t row_bytes = tensor::RowBytes(kFormat, shape.width);
    for (int64_t b = 0; b < pages; ++b) blocks_.push_back(static_cast<int32_t>(pages - 1 - b));
    pool_.resize(static_cast<size_t>(pages * kRowsPerBlock * row_bytes), 0xff);  // scales of NaN
    pages_ = {pool_.data(), blocks_.data(), kRowsPerBlock, kRowsPerBlock * row_bytes,
              row_bytes,    shape.width,    kFormat};
    for (int64_t i = 0; i < shape.keys; ++i) PutKey(i, order);
    query_ = random_.Values(rows * shape.heads * shape.width);
    weight_ = random_.Values(rows * shape.heads, 1.0f, 0.2f);
    for (int64_t r = 0; r < rows; ++r) visible_.push_back(shape.keys - rows + 1 + r);
  }

  // Runs the op over all rows; queries and weights are left as the op leaves them.
  void Run(const Ops& ops, int threads, const CandidateSets* restrict_to, CandidateSets* make) {
    const base::ThreadTeam team(threads);
    const std::vector<int32_t> sequence(visible_.size(), 0);
    std::vector<BF16> query = query_, weight = weight_;
    selection_.assign(visible_.size() * static_cast<size_t>(shape_.topk), -7);
    ops.index_select({.stream = {&team},
                      .rows = static_cast<int64_t>(visible_.size()),
                      .heads = shape_.heads,
                      .width = shape_.width,
                      .topk = shape_.topk,
                      .query = query.data(),
                      .head_weight = weight.data(),
                      .weight_scale = 0.25f,
                      .rotation = {},
                      .query_format = kFormat,
                      .keys = &pages_,
                      .row_sequence = sequence.data(),
                      .visible = visible_.data(),
                      .restrict_to = restrict_to,
                      .make_candidates = make,
                      .selection = selection_.data()});
    prepared_query_ = std::move(query);
    prepared_weight_ = std::move(weight);
  }

  std::vector<int32_t> Selection(int64_t row) const {
    const auto first = selection_.begin() + row * shape_.topk;
    return {first, first + shape_.topk};
  }

  int64_t visible(int64_t row) const { return visible_[static_cast<size_t>(row)]; }

  float Score(int64_t row, int64_t entry) const {
    std::vector<float> key(static_cast<size_t>(shape_.width));
    tensor::DecodeRow(kFormat, pages_.Row(entry), shape_.width, key.data());
    float total = 0;
    for (int64_t h = 0; h < shape_.heads; ++h) {
      const BF16* q = prepared_query_.data() + (row * shape_.heads + h) * shape_.width;
      float dot = 0;
      for (int64_t g = 0; g < shape_.width; g += 32) {
        double exact = 0;
        for (int64_t c = g; c < g + 32; ++c) exact += double{ToFloat(q[c])} * key[size_t(c)];
        dot += static_cast<float>(exact);
      }
      const float active = dot > 0 ? dot : 0;
      total += active * ToFloat(prepared_weight_[static_cast<size_t>(row * shape_.heads + h)]);
    }
    return total;
  }

  std::vector<BF16>& weight() { return weight_; }

 private:
  void PutKey(int64_t i, Order order) {
    std::vector<BF16> key = random_.Values(shape_.width);
    if (order == Order::kFewLevels) {
      Random few(static_cast<uint32_t>(i % 5));
      key = few.Values(shape_.width);
    }
    uint8_t* row = pages_.Row(i);
    tensor::EncodeRow(kFormat, key.data(), shape_.width, row);
    if (order != Order::kRising) return;
    const auto scale = static_cast<uint8_t>(80 + i * 60 / shape_.keys);
    std::fill_n(row + shape_.width / 2, shape_.width / 32, scale);
  }

  Shape shape_;
  Random random_;
  std::vector<uint8_t> pool_;
  std::vector<int32_t> blocks_;
  PagedRows pages_;
  std::vector<BF16> query_, weight_, prepared_query_, prepared_weight_;
  std::vector<int64_t> visible_;
  std::vector<int32_t> selection_;
};

// The `count` best of the entries by score, ties to the lowest, ascending, -1 behind them.
std::vector<int32_t> Best(std::vector<int32_t> entries, const std::vector<float>& score,
                          int64_t count) {
  std::erase_if(entries, [&](int32_t i) { return !(score[size_t(i)] >= -3e38f); });
  std::stable_sort(entries.begin(), entries.end(), [&](int32_t a, int32_t b) {
    return score[static_cast<size_t>(a)] > score[static_cast<size_t>(b)];
  });
  entries.resize(std::min(entries.size(), static_cast<size_t>(count)));
  std::sort(entries.begin(), entries.end());
  entries.resize(static_cast<size_t>(count), -1);
  return entries;
}

std::vector<int32_t> Numbers(int64_t n) {
  std::vector<int32_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

std::vector<float> Scores(const IndexProblem& problem, int64_t row) {
  std::vector<float> score;
  for (int64_t i = 0; i < problem.visible(row); ++i) score.push_back(problem.Score(row, i));
  return score;
}

std::vector<CpuTarget> Targets() {
  std::vector<CpuTarget> targets;
  for (const CpuTarget& target : CpuTargets()) {
    if (target.supported) targets.push_back(target);
  }
  return targets;
}

TEST(IndexSelectFp4, AgreesWithThePlainModel) {
  uint32_t seed = 0;
  for (const Shape& shape : {Shape{1, 32, 17, 4}, Shape{3, 64, 64, 64}, Shape{8, 128, 65, 12},
                             Shape{9, 160, 700, 33}, Shape{32, 128, 2500, 512}}) {
    for (const Order order : {Order::kRandom, Order::kRising, Order::kFewLevels}) {
      const int64_t rows = shape.keys > 1000 ? 2 : 11;
      IndexProblem problem(shape, rows, order, ++seed);
      for (const CpuTarget& target : Targets()) {
        problem.Run(*target.ops, 1 + static_cast<int>(seed % 3), nullptr, nullptr);
        for (int64_t r = 0; r < rows; ++r) {
          EXPECT_EQ(problem.Selection(r),
                    Best(Numbers(problem.visible(r)), Scores(problem, r), shape.topk))
              << target.name << " seed " << seed << " row " << r;
        }
      }
    }
  }
}

TEST(IndexSelectFp4, ChoosesNothingWhereNoScoreIsANumber) {
  IndexProblem problem({4, 64, 100, 7}, 3, Order::kRandom, 90);
  std::fill(problem.weight().begin() + 4, problem.weight().begin() + 8, BF16{0x7fc0});
  for (const CpuTarget& target : Targets()) {
    problem.Run(*target.ops, 2, nullptr, nullptr);
    EXPECT_EQ(problem.Selection(1), std::vector<int32_t>(7, -1)) << target.name;
    EXPECT_EQ(problem.Selection(2), Best(Numbers(100), Scores(problem, 2), 7)) << target.name;
  }
}

// The blocks of a row by their best score, the newest one first of all.
std::vector<int32_t> BestBlocks(const std::vector<float>& score, int64_t size, int64_t capacity) {
  std::vector<float> best((score.size() + size_t(size) - 1) / size_t(size),
                          -std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < score.size(); ++i) {
    best[i / size_t(size)] = std::max(best[i / size_t(size)], score[i]);
  }
  best.back() = std::numeric_limits<float>::infinity();
  return Best(Numbers(static_cast<int64_t>(best.size())), best, capacity);
}

TEST(IndexSelectFp4, MakesCandidateBlocksAndChoosesInsideThem) {
  constexpr int64_t kRowCount = 9;
  uint32_t seed = 200;
  for (const int64_t size : {4, 8, 11, 100}) {
    for (const Order order : {Order::kRandom, Order::kRising, Order::kFewLevels}) {
      const int64_t capacity = 1500 / size;
      IndexProblem problem({5, 64, 2600, 40}, kRowCount, order, ++seed);
      std::vector<int32_t> blocks(static_cast<size_t>(kRowCount * capacity));
      std::vector<int64_t> count(kRowCount);
      CandidateSets sets = {blocks.data(), count.data(), capacity, size};
      for (const CpuTarget& target : Targets()) {
        problem.Run(*target.ops, 3, nullptr, &sets);
        std::vector<std::vector<int32_t>> inside(kRowCount);
        for (int64_t r = 0; r < kRowCount; ++r) {
          const std::vector<float> score = Scores(problem, r);
          EXPECT_EQ(problem.Selection(r), Best(Numbers(problem.visible(r)), score, 40));
          const std::vector<int32_t> want = BestBlocks(score, size, capacity);
          ASSERT_EQ(count[static_cast<size_t>(r)], capacity);
          EXPECT_TRUE(std::equal(want.begin(), want.end(), blocks.begin() + r * capacity))
              << target.name << " blocks of " << size << " row " << r;
          for (const int32_t b : want) {
            for (int64_t i = b * size; i < std::min((b + 1) * size, problem.visible(r)); ++i) {
              inside[static_cast<size_t>(r)].push_back(static_cast<int32_t>(i));
            }
          }
        }
        problem.Run(*target.ops, 2, &sets, nullptr);
        for (int64_t r = 0; r < kRowCount; ++r) {
          EXPECT_EQ(problem.Selection(r),
                    Best(inside[static_cast<size_t>(r)], Scores(problem, r), 40))
              << target.name << " inside blocks of " << size << " row " << r;
        }
      }
    }
  }
}

}  // namespace
}  // namespace thalweg::kernels::testing
