// Ops on a device at the released shapes: rows have the same bits alone and among many, where other
// kernels run; selections are those of the reference; and a table of times, for reading.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops.h"
#include "kernels/test_kit.h"

namespace thalweg::kernels::testing {
namespace {

constexpr int64_t kHidden = 5120, kStreams = 4, kHeads = 64, kWidth = 512, kWindow = 128;
constexpr int64_t kTopk = 512, kIndexHeads = 32, kIndexWidth = 128, kRope = 64;
constexpr int64_t kExperts = 384, kChosen = 6, kPageRows = 64;

const tensor::Memory& Device() { return cuda::CudaMemory(); }

// Values on the device.
template <typename T>
class Array {
 public:
  explicit Array(const std::vector<T>& values) : count_(values.size()) {
    data_ = static_cast<T*>(Device().allocate(bytes()));
    Device().upload({}, data_, values.data(), bytes());
  }
  explicit Array(int64_t count) : Array(std::vector<T>(static_cast<size_t>(count))) {}
  ~Array() { Device().release(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  operator T*() const { return data_; }  // NOLINT: implicit on purpose
  int64_t bytes() const { return static_cast<int64_t>(count_ * sizeof(T)); }
  std::vector<T> Get() const {
    std::vector<T> out(count_);
    Device().download({}, out.data(), data_, bytes());
    return out;
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

// Rows that a random few stand for: the same values again and again, each time shifted by one.
std::vector<BF16> Halves(int64_t n, uint32_t seed) {
  Random random(seed);
  const std::vector<BF16> some = random.Values(65537);
  std::vector<BF16> out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); ++i) out[i] = some[i % some.size()];
  return out;
}

std::vector<uint8_t> EncodedRows(RowFormat format, int64_t width, int64_t rows, uint32_t seed) {
  const std::vector<BF16> values = Halves(257 * width, seed);
  const int64_t bytes = tensor::RowBytes(format, width);
  std::vector<uint8_t> some(static_cast<size_t>(257 * bytes)), out;
  for (int64_t r = 0; r < 257; ++r) {
    tensor::EncodeRow(format, values.data() + r * width, width, some.data() + r * bytes);
  }
  out.resize(static_cast<size_t>(rows * bytes));
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(some.data() + r % 257 * bytes, bytes, out.data() + r * bytes);
  }
  return out;
}

// Microseconds of a call, the mean of many.
template <typename F>
double Time(const F& call) {
  constexpr int kCalls = 20;
  for (int i = 0; i < 3; ++i) call();
  EXPECT_TRUE(Device().synchronize({}).ok());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  EXPECT_TRUE(Device().synchronize({}).ok());
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return took.count() / kCalls;
}

void Print(const char* op, int64_t rows, double microseconds, double bytes, double flops) {
  fmt::print(stderr, "{:<28} rows {:>5}  {:>9.1f} us  {:>7.1f} GB/s  {:>7.1f} TFLOP/s\n", op, rows,
             microseconds, bytes / microseconds * 1e-3, flops / microseconds * 1e-6);
}

// Rows that see a whole window and a whole selection out of `entries`.
struct AttentionBatch {
  AttentionBatch(int64_t rows, int64_t entries)
      : n(rows),
        query(Halves(rows * kHeads * kWidth, 1)),
        out(rows * kHeads * kWidth),
        ring(EncodedRows(RowFormat::kFp8E8M0, kWidth, kWindow, 2)),
        pool(EncodedRows(RowFormat::kFp4E4M3, kWidth, entries, 3)),
        sink(std::vector<float>(kHeads, 0.5f)),
        chosen(Selection(rows, entries)),
        sequence(static_cast<size_t>(rows), 0),
        end(static_cast<size_t>(rows), 1000),
        cos(static_cast<size_t>(rows * kRope / 2), 0.6f),
        sin(static_cast<size_t>(rows * kRope / 2), 0.8f) {
    for (int64_t b = 0; b < entries / kPageRows; ++b) blocks.push_back(static_cast<int32_t>(b));
    window = {ring, kWindow, nullptr, 1001, 0};
    const int64_t row_bytes = tensor::RowBytes(RowFormat::kFp4E4M3, kWidth);
    pages = {pool,      blocks.data(), kPageRows,           kPageRows * row_bytes,
             row_bytes, kWidth,        RowFormat::kFp4E4M3, entries / kPageRows};
  }

  static std::vector<int32_t> Selection(int64_t rows, int64_t entries) {
    std::vector<int32_t> out;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < kTopk; ++i) {
        out.push_back(static_cast<int32_t>(i * entries / kTopk + r % (entries / kTopk)));
      }
    }
    return out;
  }

  AttentionParams Params(int64_t first, int64_t count) {
    return {{},
            count,
            kHeads,
            kWidth,
            kWindow,
            query + first * kHeads * kWidth,
            {cos.data(), sin.data(), kRope},
            0.044194173f,
            sink,
            sequence.data(),
            end.data(),
            &window,
            RowFormat::kFp8E8M0,
            &pages,
            chosen + first * kTopk,
            kTopk,
            out + first * kHeads * kWidth};
  }

  int64_t n;
  Array<BF16> query, out;
  Array<uint8_t> ring, pool;
  Array<float> sink;
  Array<int32_t> chosen;
  std::vector<int32_t> sequence, blocks;
  std::vector<int64_t> end;
  std::vector<float> cos, sin;
  WindowKeys window;
  PagedRows pages;
};

TEST(ReleasedShapes, AttentionOfARowIsTheSameAmongMany) {
  AttentionBatch batch(160, 4096);
  cuda::CudaOps().attention(batch.Params(0, 160));
  ASSERT_TRUE(Device().synchronize({}).ok());
  const std::vector<BF16> many = batch.out.Get();
  for (int64_t r = 0; r < 160; r += 13) cuda::CudaOps().attention(batch.Params(r, 1));
  cuda::CudaOps().attention(batch.Params(40, 30));
  ASSERT_TRUE(Device().synchronize({}).ok());
  const std::vector<BF16> alone = batch.out.Get();
  EXPECT_EQ(std::memcmp(many.data(), alone.data(), many.size() * sizeof(BF16)), 0);
}

TEST(ReleasedShapes, AttentionTimes) {
  for (const int64_t rows : {1, 6, 16, 64, 256, 1024}) {
    AttentionBatch batch(rows, 16384);
    const double flops = static_cast<double>(rows) * kHeads * (kWindow + kTopk) * kWidth * 4;
    const double took = Time([&] { cuda::CudaOps().attention(batch.Params(0, rows)); });
    Print("attention", rows, took, static_cast<double>(rows) * (kWindow * 528 + kTopk * 288),
          flops);
  }
}

// Index queries and keys of one sequence.
struct IndexBatch {
  IndexBatch(int64_t n, int64_t entries, int64_t h = kIndexHeads, int64_t w = kIndexWidth)
      : rows(n),
        heads(h),
        width(w),
        query(Halves(rows * heads * width, 4)),
        weight(Halves(rows * heads, 5)),
        keys(EncodedRows(RowFormat::kFp4E8M0, width, entries, 6)),
        cos(static_cast<size_t>(rows * width / 4), 0.6f),
        sin(static_cast<size_t>(rows * width / 4), 0.8f),
        sequence(static_cast<size_t>(rows), 0),
        visible(static_cast<size_t>(rows)) {
    for (int64_t r = 0; r < rows; ++r) visible[static_cast<size_t>(r)] = entries - rows + 1 + r;
    for (int64_t b = 0; b < entries / kPageRows; ++b) blocks.push_back(static_cast<int32_t>(b));
  }

  // The call over some memory that holds query, weight, keys and the selection.
  IndexSelectParams Params(const base::ThreadTeam* team, BF16* q, BF16* w, uint8_t* pool,
                           int32_t* selection, CandidateSets* make = nullptr) {
    const int64_t row_bytes = tensor::RowBytes(RowFormat::kFp4E8M0, width);
    pages = {pool,      blocks.data(), kPageRows,           kPageRows * row_bytes,
             row_bytes, width,         RowFormat::kFp4E8M0, static_cast<int64_t>(blocks.size())};
    return {{team},
            rows,
            heads,
            width,
            kTopk,
            q,
            w,
            0.015625f,
            {cos.data(), sin.data(), width / 2},
            RowFormat::kFp4E8M0,
            &pages,
            sequence.data(),
            visible.data(),
            nullptr,
            make,
            selection};
  }

  int64_t rows, heads, width;
  std::vector<BF16> query, weight;
  std::vector<uint8_t> keys;
  std::vector<float> cos, sin;
  std::vector<int32_t> sequence, blocks;
  std::vector<int64_t> visible;
  PagedRows pages;
};

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

TEST(ReleasedShapes, IndexTimes) {
  for (const int64_t entries : {4096, 65536, 524288}) {
    for (const int64_t rows : {1, 64, 1024}) {
      if (rows * entries > int64_t{1} << 27) continue;
      IndexBatch batch(rows, entries);
      Array<BF16> q(batch.query), w(batch.weight);
      Array<uint8_t> keys(batch.keys);
      Array<int32_t> got(rows * kTopk);
      const double work = static_cast<double>(rows) * static_cast<double>(entries);
      const double took =
          Time([&] { cuda::CudaOps().index_select(batch.Params(nullptr, q, w, keys, got)); });
      const std::string name = "index_select of " + std::to_string(entries);
      Print(name.c_str(), rows, took, static_cast<double>(entries) * 68,
            work * kIndexHeads * kIndexWidth * 2);
    }
  }
}

TEST(ReleasedShapes, HyperConnectionTimes) {
  for (const int64_t rows : {1, 64, 1024}) {
    const int64_t mixes = 2 * kStreams + kStreams * kStreams;
    Array<BF16> streams(Halves(rows * kStreams * kHidden, 7)), update(rows * kHidden);
    Array<BF16> weight(Halves(kHidden, 8)), normed(rows * kHidden), quantised(rows * kHidden);
    Array<float> fn(std::vector<float>(static_cast<size_t>(mixes * kStreams * kHidden), 1e-3f));
    Array<float> base(mixes), scale(std::vector<float>(3, 1.0f)), pre_in(rows * kStreams);
    Array<float> pre(rows * kStreams), post(rows * kStreams), comb(rows * kStreams * kStreams);
    const double bytes = static_cast<double>(rows * kStreams * kHidden) * 2;
    const double predict = Time([&] {
      cuda::CudaOps().hyper_predict({{},
                                     rows,
                                     kStreams,
                                     kHidden,
                                     streams,
                                     fn,
                                     base,
                                     scale,
                                     20,
                                     1e-20f,
                                     1e-6f,
                                     pre_in,
                                     weight,
                                     RowFormat::kFp8E8M0,
                                     pre,
                                     post,
                                     comb,
                                     normed,
                                     quantised});
    });
    Print("hyper_predict", rows, predict, bytes,
          static_cast<double>(rows * mixes * kStreams * kHidden) * 2);
    const double finish = Time([&] {
      cuda::CudaOps().hyper_finish({{}, rows, kStreams, kHidden, update, post, comb, streams});
    });
    Print("hyper_finish", rows, finish, 2 * bytes, 0);
    const double norm = Time([&] {
      cuda::CudaOps().norm(
          {{}, rows, kHidden, update, weight, 1e-20f, RowFormat::kFp8E8M0, normed, quantised});
    });
    Print("norm", rows, norm, static_cast<double>(rows * kHidden) * 6, 0);
  }
}

TEST(ReleasedShapes, GateTimes) {
  for (const int64_t rows : {1, 64, 1024}) {
    Array<BF16> x(Halves(rows * kHidden, 9)), weight(Halves(kExperts * kHidden, 10));
    Array<float> bias(kExperts), weights(rows * kChosen);
    Array<int32_t> chosen(rows * kChosen);
    const Matrix matrix = {WeightFormat::kBF16, weight, nullptr, kExperts, kHidden};
    const double took = Time([&] {
      cuda::CudaOps().gate({{},
                            rows,
                            kHidden,
                            kExperts,
                            kChosen,
                            x,
                            matrix,
                            bias,
                            nullptr,
                            nullptr,
                            1.5f,
                            chosen,
                            weights});
    });
    Print("gate", rows, took, static_cast<double>(kExperts * kHidden) * 2,
          static_cast<double>(rows * kExperts * kHidden) * 2);
  }
}

}  // namespace
}  // namespace thalweg::kernels::testing
