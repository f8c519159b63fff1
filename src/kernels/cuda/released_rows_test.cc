// Ops on a device at the released shapes: rows have the same bits alone and among many, where other
// kernels run, and are those of the reference.
#include <cmath>
#include <iterator>
#include <utility>

#include "kernels/cuda/released_kit.h"

namespace thalweg::kernels::testing {
namespace {

// Windows and selections of many lengths: a row's, by its place among ten.
void MakeRagged(AttentionBatch* batch, std::vector<int32_t>* chosen) {
  constexpr int64_t kEnds[] = {1000, 0, 3, 63, 64, 65, 126, 127, 128, 5000};
  constexpr int64_t kCounts[] = {512, 1, 0, 63, 64, 65, 511, 300, 128, 512};
  for (int64_t r = 0; r < batch->n; ++r) {
    batch->end[static_cast<size_t>(r)] = kEnds[r % 10];
    const auto row = chosen->begin() + r * kTopk;
    std::fill(row + kCounts[(r + r / 10) % 10], row + kTopk, -1);
  }
  batch->window.chunk_begin = int64_t{1} << 40;
}

TEST(ReleasedShapes, AttentionOfARowIsTheSameAmongMany) {
  AttentionBatch batch(160, 4096);
  std::vector<int32_t> ragged = AttentionBatch::Selection(160, 4096);
  MakeRagged(&batch, &ragged);
  Array<int32_t> chosen(ragged);
  const auto attend = [&](int64_t first, int64_t count) {
    AttentionParams p = batch.Params(first, count);
    p.selection = chosen + first * kTopk;
    p.window_end += first;
    cuda::CudaOps().attention(p);
  };
  attend(0, 160);
  ASSERT_TRUE(Device().synchronize({}).ok());
  const std::vector<BF16> many = batch.out.Get();
  for (int64_t r = 0; r < 160; r += 13) attend(r, 1);
  attend(40, 30);
  attend(90, 6);
  ASSERT_TRUE(Device().synchronize({}).ok());
  const std::vector<BF16> alone = batch.out.Get();
  EXPECT_EQ(std::memcmp(many.data(), alone.data(), many.size() * sizeof(BF16)), 0);
}

TEST(ReleasedShapes, AttentionIsThatOfTheReference) {
  constexpr int64_t kRowCount = 20;
  const base::ThreadTeam team(8);
  AttentionBatch batch(kRowCount, 4096);
  std::vector<int32_t> ragged = AttentionBatch::Selection(kRowCount, 4096);
  MakeRagged(&batch, &ragged);
  Array<int32_t> chosen(ragged);
  AttentionParams p = batch.Params(0, kRowCount);
  p.selection = chosen;
  cuda::CudaOps().attention(p);
  ASSERT_TRUE(Device().synchronize({}).ok());
  const std::vector<BF16> got = batch.out.Get();
  std::vector<BF16> query = Halves(kRowCount * kHeads * kWidth, 1), want(got.size());
  std::vector<uint8_t> ring = EncodedRows(RowFormat::kFp8E8M0, kWidth, kWindow, 2);
  std::vector<uint8_t> pool = EncodedRows(RowFormat::kFp4E4M3, kWidth, 4096, 3);
  const std::vector<float> sink(kHeads, 0.5f);
  WindowKeys window = batch.window;
  window.ring = ring.data();
  PagedRows pages = batch.pages;
  pages.pool = pool.data();
  p.stream.team = &team;
  p.query = query.data();
  p.sink = sink.data();
  p.window_keys = &window;
  p.selected_rows = &pages;
  p.selection = ragged.data();
  p.out = want.data();
  ReferenceOps().attention(p);
  for (int64_t r = 0; r < kRowCount; ++r) {
    double error = 0, size = 0;
    for (int64_t i = r * kHeads * kWidth; i < (r + 1) * kHeads * kWidth; ++i) {
      const double x = tensor::ToFloat(want[static_cast<size_t>(i)]);
      const double d = tensor::ToFloat(got[static_cast<size_t>(i)]) - x;
      error += d * d;
      size += x * x;
    }
    EXPECT_LT(std::sqrt(error / size), 4e-3) << r;
  }
}

// How many of each row's entries are in both lists; -1 behind the last of a row.
int64_t Shared(const std::vector<int32_t>& a, const std::vector<int32_t>& b, int64_t width) {
  int64_t shared = 0;
  for (auto x = a.begin(), y = b.begin(); x != a.end(); x += width, y += width) {
    std::vector<int32_t> both;
    std::set_intersection(x, x + width, y, y + width, std::back_inserter(both));
    shared += static_cast<int64_t>(both.size());
  }
  return shared;
}

TEST(ReleasedShapes, SelectionsAreThoseOfTheReference) {
  constexpr int64_t kRowCount = 12, kCapacity = 100;
  const base::ThreadTeam team(8);
  for (const auto& [heads, width] : {std::pair{32, 128}, {5, 64}, {4, 32}, {40, 96}, {3, 256}}) {
    IndexBatch batch(kRowCount, 4096, heads, width);
    std::vector<int32_t> want(static_cast<size_t>(kRowCount * kTopk));
    std::vector<int32_t> want_blocks(static_cast<size_t>(kRowCount * kCapacity));
    std::vector<int64_t> counts(kRowCount);
    std::vector<BF16> query = batch.query, weight = batch.weight;
    CandidateSets wanted = {want_blocks.data(), counts.data(), kCapacity, 8};
    ReferenceOps().index_select(
        batch.Params(&team, query.data(), weight.data(), batch.keys.data(), want.data(), &wanted));
    Array<BF16> q(batch.query), w(batch.weight);
    Array<uint8_t> keys(batch.keys);
    Array<int32_t> got(kRowCount * kTopk), blocks(kRowCount * kCapacity);
    Array<int64_t> count(kRowCount);
    CandidateSets made = {blocks, count, kCapacity, 8};
    cuda::CudaOps().index_select(batch.Params(nullptr, q, w, keys, got, &made));
    ASSERT_TRUE(Device().synchronize({}).ok());
    EXPECT_EQ(count.Get(), counts) << width;
    // A product that rounds the other way may move an entry at the edge.
    EXPECT_GE(Shared(want, got.Get(), kTopk), kRowCount * kTopk - 12) << width;
    EXPECT_GE(Shared(want_blocks, blocks.Get(), kCapacity), kRowCount * kCapacity - 12) << width;
  }
}

std::vector<uint16_t> Bits(const std::vector<BF16>& x) {
  std::vector<uint16_t> bits;
  for (const BF16 value : x) bits.push_back(value.bits);
  return bits;
}

// Groups of a query, and of a key, that are up to 2^12 apart; inside given candidates, too.
TEST(ReleasedShapes, SelectionsHoldWhereScalesAreApart) {
  constexpr int64_t kRowCount = 12, kCapacity = 100, kGroups = kIndexWidth / 32;
  const base::ThreadTeam team(8);
  IndexBatch batch(kRowCount, 4096);
  for (size_t i = 0; i < batch.query.size(); ++i) {
    const auto group = static_cast<int>(i / 32 % kGroups), head = static_cast<int>(i / kIndexWidth);
    const float x = tensor::ToFloat(batch.query[i]);
    batch.query[i] = tensor::ToBF16(std::ldexp(x, -4 * ((group + head) % 4)));
  }
  const int64_t row_bytes = tensor::RowBytes(RowFormat::kFp4E8M0, kIndexWidth);
  for (int64_t r = 0; r < 4096; ++r) {
    for (int64_t g = 0; g < kGroups; ++g) {
      auto& scale = batch.keys[static_cast<size_t>(r * row_bytes + kIndexWidth / 2 + g)];
      scale = static_cast<uint8_t>(scale + (r * 7 + g * 3) % 9 - 4);
    }
  }
  std::vector<int32_t> blocks;
  for (int64_t i = 0; i < kRowCount * kCapacity; ++i) {
    blocks.push_back(static_cast<int32_t>(i % kCapacity * 5 + i / kCapacity % 5));
  }
  std::vector<int64_t> counts(kRowCount, kCapacity);
  counts[3] = -1;  // everything
  counts[5] = 1;
  CandidateSets wanted = {blocks.data(), counts.data(), kCapacity, 8};
  Array<int32_t> device_blocks(blocks);
  Array<int64_t> device_counts(counts);
  CandidateSets made = {device_blocks, device_counts, kCapacity, 8};
  for (const bool inside : {false, true}) {
    std::vector<int32_t> want(static_cast<size_t>(kRowCount * kTopk));
    std::vector<BF16> query = batch.query, weight = batch.weight;
    IndexSelectParams p =
        batch.Params(&team, query.data(), weight.data(), batch.keys.data(), want.data());
    if (inside) p.restrict_to = &wanted;
    ReferenceOps().index_select(p);
    Array<BF16> q(batch.query), w(batch.weight);
    Array<uint8_t> keys(batch.keys);
    Array<int32_t> got(kRowCount * kTopk);
    p = batch.Params(nullptr, q, w, keys, got);
    if (inside) p.restrict_to = &made;
    cuda::CudaOps().index_select(p);
    ASSERT_TRUE(Device().synchronize({}).ok());
    const std::vector<int32_t> chosen = got.Get();
    EXPECT_EQ(std::count(chosen.begin(), chosen.end(), -1),
              std::count(want.begin(), want.end(), -1));
    EXPECT_GE(Shared(want, chosen, kTopk) + std::count(want.begin(), want.end(), -1),
              kRowCount * kTopk - 12);
    EXPECT_EQ(Bits(q.Get()), Bits(query));  // rotated and quantised
    EXPECT_EQ(Bits(w.Get()), Bits(weight));
  }
}

TEST(ReleasedShapes, SelectionsOfARowAreTheSameAlone) {
  constexpr int64_t kRowCount = 12, kCapacity = 512;
  IndexBatch batch(kRowCount, 20032);
  Array<uint8_t> keys(batch.keys);
  const auto select = [&](int64_t each) {
    Array<BF16> q(batch.query), w(batch.weight);
    Array<int32_t> got(kRowCount * kTopk), blocks(kRowCount * kCapacity);
    Array<int64_t> count(kRowCount);
    for (int64_t r = 0; r < kRowCount; r += each) {
      CandidateSets sets = {blocks + r * kCapacity, count + r, kCapacity, 8};
      IndexSelectParams p = batch.Params(nullptr, q + r * kIndexHeads * kIndexWidth,
                                         w + r * kIndexHeads, keys, got + r * kTopk, &sets);
      p.rows = each;
      p.visible += r;
      p.row_sequence += r;
      cuda::CudaOps().index_select(p);
    }
    EXPECT_TRUE(Device().synchronize({}).ok());
    return std::pair(got.Get(), blocks.Get());
  };
  const auto together = select(kRowCount);
  EXPECT_EQ(select(1), together);
  EXPECT_EQ(select(6), together);
}

TEST(ReleasedShapes, RowsMove) {
  const std::vector<int32_t> rows = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  Array<int32_t> data(rows), scratch(10), other(10);
  const std::vector<int64_t> kept = {1, 2, 4};
  cuda::CudaOps().compact_rows({{}, 3, 8, kept.data(), data, scratch});
  EXPECT_EQ(data.Get(), (std::vector<int32_t>{2, 3, 4, 5, 8, 9, 6, 7, 8, 9}));
  const std::vector<const void*> from = {data + 4, data + 0};
  const std::vector<void*> to = {other + 1, other + 3};
  cuda::CudaOps().copy_rows({{}, 2, 8, from.data(), to.data()});
  EXPECT_EQ(other.Get(), (std::vector<int32_t>{0, 8, 9, 2, 3, 0, 0, 0, 0, 0}));
}

template <typename T>
std::vector<uint8_t> BytesOf(const Array<T>& array) {
  const std::vector<T> values = array.Get();
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return {bytes, bytes + values.size() * sizeof(T)};
}

TEST(ReleasedShapes, HyperConnectionsOfARowAreTheSameAmongMany) {
  constexpr int64_t kRowCount = 160;
  HyperBatch batch(kRowCount);
  const auto made = [&](int64_t each) {
    for (int64_t r = 0; r < kRowCount; r += each) {
      cuda::CudaOps().hyper_predict(batch.Predict(r, std::min(each, kRowCount - r)));
    }
    EXPECT_TRUE(Device().synchronize({}).ok());
    return std::vector{BytesOf(batch.pre), BytesOf(batch.post), BytesOf(batch.comb),
                       BytesOf(batch.normed), BytesOf(batch.quantised)};
  };
  const auto together = made(kRowCount);
  EXPECT_EQ(made(1), together);
  EXPECT_EQ(made(6), together);
  EXPECT_EQ(made(64), together);
}

TEST(ReleasedShapes, RoutesOfARowAreTheSameAmongMany) {
  constexpr int64_t kRowCount = 160;
  Array<BF16> x(Halves(kRowCount * kHidden, 9)), weight(Halves(kExperts * kHidden, 10));
  Array<float> bias(Random(14).Floats(kExperts, 0.1f)), weights(kRowCount * kChosen);
  Array<int32_t> chosen(kRowCount * kChosen);
  const Matrix matrix = {WeightFormat::kBF16, weight, nullptr, kExperts, kHidden};
  const auto made = [&](int64_t each) {
    for (int64_t r = 0; r < kRowCount; r += each) {
      cuda::CudaOps().gate({.stream = {},
                            .rows = std::min(each, kRowCount - r),
                            .hidden = kHidden,
                            .experts = kExperts,
                            .topk = kChosen,
                            .x = x + r * kHidden,
                            .weight = matrix,
                            .bias = bias,
                            .route_scale = 1.5f,
                            .chosen = chosen + r * kChosen,
                            .weights = weights + r * kChosen});
    }
    EXPECT_TRUE(Device().synchronize({}).ok());
    return std::vector{BytesOf(chosen), BytesOf(weights)};
  };
  const auto together = made(kRowCount);
  EXPECT_EQ(made(1), together);
  EXPECT_EQ(made(6), together);
  EXPECT_EQ(made(64), together);
}

}  // namespace
}  // namespace thalweg::kernels::testing
