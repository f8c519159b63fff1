// Attention over ragged windows and selections, compared with a plain model in double precision on
// every cpu target; keys out of sight are NaN and leave no trace; all targets give the same bits.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/backends.h"
#include "kernels/test_kit.h"

namespace thalweg::kernels::testing {
namespace {

constexpr RowFormat kWindowFormat = RowFormat::kFp8E8M0;
constexpr RowFormat kMainFormat = RowFormat::kFp4E4M3;
constexpr int64_t kRing = 64, kEntries = 200;

struct Shape {
  int64_t heads, width, window, topk;
};

// One query row of one sequence.
class AttentionProblem {
 public:
  AttentionProblem(const Shape& shape, int64_t in_window, int64_t selected, uint32_t seed)
      : shape_(shape), random_(seed), selection_(static_cast<size_t>(shape.topk), -1) {
    query_ = random_.Values(shape.heads * shape.width);
    sink_ = random_.Floats(shape.heads);
    end_ = 70 + random_.Below(60);
    floor_ = end_ - in_window + 1;
    ring_.resize(static_cast<size_t>(kRing * Bytes(kWindowFormat)), 0xff);  // NaN
    pool_.resize(static_cast<size_t>(kEntries * Bytes(kMainFormat)), 0xff);
    for (int64_t p = floor_; p <= end_; ++p) {
      PutKey(kWindowFormat, ring_.data() + p % kRing * Bytes(kWindowFormat));
    }
    for (int64_t i = 0; i < selected; ++i) {
      selection_[static_cast<size_t>(i)] = static_cast<int32_t>(i * kEntries / selected);
      PutKey(kMainFormat, pool_.data() + selection_[static_cast<size_t>(i)] * Bytes(kMainFormat));
    }
  }

  std::vector<float> Run(const Ops& ops, int threads) const {
    const base::ThreadTeam team(threads);
    std::vector<BF16> query = query_, y(query.size());
    const int32_t sequence = 0, block = 0;
    const WindowKeys window = {ring_.data(), kRing, nullptr, end_ + 1, floor_};
    const PagedRows pages = {const_cast<uint8_t*>(pool_.data()),
                             &block,
                             kEntries,
                             kEntries * Bytes(kMainFormat),
                             Bytes(kMainFormat),
                             shape_.width,
                             kMainFormat,
                             1};
    ops.attention({{&team},
                   1,
                   shape_.heads,
                   shape_.width,
                   shape_.window,
                   query.data(),
                   {nullptr, nullptr, 0},
                   kScale,
                   sink_.data(),
                   &sequence,
                   &end_,
                   &window,
                   kWindowFormat,
                   shape_.topk > 0 ? &pages : nullptr,
                   selection_.data(),
                   shape_.topk,
                   y.data()});
    std::vector<float> out;
    for (const BF16 x : y) out.push_back(ToFloat(x));
    return out;
  }

  std::vector<float> PlainModel() const {
    std::vector<float> out;
    for (int64_t h = 0; h < shape_.heads; ++h) {
      std::vector<double> sum(static_cast<size_t>(shape_.width));
      double denominator = std::exp(double{sink_[static_cast<size_t>(h)]});
      for (const std::vector<float>& key : keys_) {
        double dot = 0;
        for (size_t c = 0; c < key.size(); ++c) {
          dot += double{ToFloat(query_[static_cast<size_t>(h) * key.size() + c])} * key[c];
        }
        const double weight = std::exp(dot * kScale);
        denominator += weight;
        for (size_t c = 0; c < key.size(); ++c) sum[c] += weight * key[c];
      }
      for (const double x : sum) out.push_back(static_cast<float>(x / denominator));
    }
    return out;
  }

 private:
  static constexpr float kScale = 0.125f;
  int64_t Bytes(RowFormat format) const { return tensor::RowBytes(format, shape_.width); }
  void PutKey(RowFormat format, uint8_t* out) {
    const std::vector<BF16> values = random_.Values(shape_.width);
    tensor::EncodeRow(format, values.data(), shape_.width, out);
    keys_.emplace_back(static_cast<size_t>(shape_.width));
    tensor::DecodeRow(format, out, shape_.width, keys_.back().data());
  }

  Shape shape_;
  Random random_;
  std::vector<BF16> query_;
  std::vector<float> sink_;
  int64_t end_ = 0, floor_ = 0;
  std::vector<uint8_t> ring_, pool_;
  std::vector<int32_t> selection_;
  std::vector<std::vector<float>> keys_;
};

void ExpectNear(const std::vector<float>& want, const std::vector<float>& got,
                const std::string& what) {
  double squares = 1e-30, errors = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i])) << what << " value " << i;
    squares += double{want[i]} * want[i];
    errors += std::pow(double{want[i]} - got[i], 2);
  }
  EXPECT_LE(std::sqrt(errors / squares), 0.012) << what;  // probabilities and outputs in bf16
}

std::vector<const Ops*> AllOps() {
  if (DeviceOps() != nullptr) return {DeviceOps()};
  std::vector<const Ops*> all;
  for (const CpuTarget& target : CpuTargets()) {
    if (target.supported) all.push_back(target.ops);
  }
  return all;
}

TEST(Attention, AgreesWithThePlainModelWhateverIsThere) {
  Random random(5);
  for (int round = 0; round < 60; ++round) {
    constexpr int64_t kHeads[] = {1, 5, 16, 17, 40}, kWidths[] = {32, 64, 96, 512};
    const Shape shape = {kHeads[random.Below(5)], kWidths[random.Below(4)], 1 + random.Below(40),
                         random.Below(3) == 0 ? 0 : 1 + random.Below(70)};
    const int64_t in_window = std::min(random.Below(shape.window + 1), shape.window);
    const int64_t selected = shape.topk > 0 ? random.Below(shape.topk + 1) : 0;
    const AttentionProblem problem(shape, in_window, selected, static_cast<uint32_t>(round));
    const std::vector<float> want = problem.PlainModel();
    std::vector<float> first;
    for (const Ops* ops : AllOps()) {
      const std::vector<float> got = problem.Run(*ops, 1 + round % 3);
      ExpectNear(want, got, std::string(ops->name) + " round " + std::to_string(round));
      if (first.empty()) first = got;
      EXPECT_EQ(got, first) << ops->name << " round " << round;
    }
  }
}

}  // namespace
}  // namespace thalweg::kernels::testing
