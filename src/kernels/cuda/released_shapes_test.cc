// Times of ops on a device at the released shapes, as a table, for reading.
#include <fmt/format.h>

#include <chrono>

#include "kernels/cuda/released_kit.h"

namespace thalweg::kernels::testing {
namespace {

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

TEST(ReleasedShapes, AttentionTimes) {
  for (const int64_t rows : {1, 6, 16, 64, 256, 1024}) {
    AttentionBatch batch(rows, 16384);
    const double flops = static_cast<double>(rows) * kHeads * (kWindow + kTopk) * kWidth * 4;
    const double took = Time([&] { cuda::CudaOps().attention(batch.Params(0, rows)); });
    Print("attention", rows, took, static_cast<double>(rows) * (kWindow * 528 + kTopk * 288),
          flops);
  }
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
    HyperBatch b(rows);
    const double bytes = static_cast<double>(rows * kStreams * kHidden) * 2;
    const double predict = Time([&] { cuda::CudaOps().hyper_predict(b.Predict(0, rows)); });
    Print("hyper_predict", rows, predict, bytes,
          static_cast<double>(rows * HyperBatch::kMixes * kStreams * kHidden) * 2);
    const double finish = Time([&] {
      cuda::CudaOps().hyper_finish(
          {{}, rows, kStreams, kHidden, b.update, b.post, b.comb, b.streams});
    });
    Print("hyper_finish", rows, finish, 2 * bytes, 0);
    const double norm = Time([&] {
      cuda::CudaOps().norm({{},
                            rows,
                            kHidden,
                            b.update,
                            b.weight,
                            1e-20f,
                            RowFormat::kFp8E8M0,
                            b.normed,
                            b.quantised});
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
