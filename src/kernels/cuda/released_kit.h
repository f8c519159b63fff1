// Operands at the released shapes in the memory of a device, for its tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops.h"
#include "kernels/test_kit.h"

namespace thalweg::kernels::testing {

inline constexpr int64_t kHidden = 5120, kStreams = 4, kHeads = 64, kWidth = 512, kWindow = 128;
inline constexpr int64_t kTopk = 512, kIndexHeads = 32, kIndexWidth = 128, kRope = 64;
inline constexpr int64_t kExperts = 384, kChosen = 6, kPageRows = 64;

inline const tensor::Memory& Device() { return cuda::CudaMemory(); }

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
inline std::vector<BF16> Halves(int64_t n, uint32_t seed) {
  Random random(seed);
  const std::vector<BF16> some = random.Values(65537);
  std::vector<BF16> out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); ++i) out[i] = some[i % some.size()];
  return out;
}

inline std::vector<uint8_t> EncodedRows(RowFormat format, int64_t width, int64_t rows,
                                        uint32_t seed) {
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
    return {.stream = {team},
            .rows = rows,
            .heads = heads,
            .width = width,
            .topk = kTopk,
            .query = q,
            .head_weight = w,
            .weight_scale = 0.015625f,
            .rotation = {cos.data(), sin.data(), width / 2},
            .keys = &pages,
            .row_sequence = sequence.data(),
            .visible = visible.data(),
            .make_candidates = make,
            .selection = selection};
  }

  int64_t rows, heads, width;
  std::vector<BF16> query, weight;
  std::vector<uint8_t> keys;
  std::vector<float> cos, sin;
  std::vector<int32_t> sequence, blocks;
  std::vector<int64_t> visible;
  PagedRows pages;
};

// Streams of rows and what hyper-connections make of them.
struct HyperBatch {
  static constexpr int64_t kMixes = 2 * kStreams + kStreams * kStreams;
  explicit HyperBatch(int64_t rows)
      : streams(Halves(rows * kStreams * kHidden, 7)),
        update(Halves(rows * kHidden, 11)),
        weight(Halves(kHidden, 8)),
        normed(rows * kHidden),
        quantised(rows * kHidden),
        fn(Random(12).Floats(kMixes * kStreams * kHidden, 1e-2f)),
        base(kMixes),
        scale(std::vector<float>(3, 1.0f)),
        pre_in(Random(13).Floats(rows * kStreams)),
        pre(rows * kStreams),
        post(rows * kStreams),
        comb(rows * kStreams * kStreams) {}

  HyperPredictParams Predict(int64_t first, int64_t count) {
    return {.stream = {},
            .rows = count,
            .streams_n = kStreams,
            .hidden = kHidden,
            .streams = streams + first * kStreams * kHidden,
            .fn = fn,
            .base = base,
            .scale = scale,
            .sinkhorn_iters = 20,
            .norm_eps = 1e-20f,
            .hc_eps = 1e-6f,
            .pre_in = pre_in + first * kStreams,
            .norm_weight = weight,
            .pre_out = pre + first * kStreams,
            .post = post + first * kStreams,
            .comb = comb + first * kStreams * kStreams,
            .normed = normed + first * kHidden,
            .normed_quantised = quantised + first * kHidden};
  }

  Array<BF16> streams, update, weight, normed, quantised;
  Array<float> fn, base, scale, pre_in, pre, post, comb;
};

}  // namespace thalweg::kernels::testing
