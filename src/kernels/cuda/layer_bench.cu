// The ops of a layer that reuses another one's cache, at the released shapes, in one graph as a
// step records them: what a layer takes, and how much less it takes without each of its ops.
// Weights are random bits, four sets of them, which no cache holds; experts are chosen at random.
#include <charconv>
#include <string_view>
#include <system_error>
#include <vector>

#include "kernels/cuda/bench_units.cuh"
#include "kernels/cuda/memory.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int64_t kHidden = 5120, kStreams = 4, kHeads = 64, kWidth = 512, kLow = 1280,
                  kWindow = 128;
constexpr int64_t kGroups = 8, kGroupOut = 1024, kInner = 2304, kTopk = 6, kExperts = 384;
constexpr int64_t kSelected = 512, kEntries = 8192, kRope = 64, kMixes = 24, kRing = 256;
constexpr int64_t kMostRows = 64;
constexpr int kSets = 4, kLayers = 8;
constexpr const char* kOps[] = {
    "predict, attention", "wq_a and wkv", "norm",    "window rows",    "wq_b",
    "attention",          "window copy",  "wo_a",    "wo_b",           "finish, attention",
    "predict, experts",   "gate",         "experts", "finish, experts"};

FeedForward RandomExpert(WeightFormat format) {
  return {RandomMatrix(format, kInner, kHidden), RandomMatrix(format, kInner, kHidden),
          RandomMatrix(format, kHidden, kInner)};
}

struct Set {
  Matrix wq_a = RandomMatrix(WeightFormat::kFp8, kLow, kHidden);
  Matrix wkv = RandomMatrix(WeightFormat::kFp8, kWidth, kHidden);
  Matrix wq_b = RandomMatrix(WeightFormat::kFp8, kHeads* kWidth, kLow);
  Matrix wo_a = RandomMatrix(WeightFormat::kFp8, kGroups* kGroupOut, kHeads* kWidth / kGroups,
                             Inputs::kPlain);
  Matrix wo_b = RandomMatrix(WeightFormat::kFp8, kHidden, kGroups* kGroupOut);
  Matrix gate = RandomMatrix(WeightFormat::kBF16, kExperts, kHidden);
  FeedForward shared = RandomExpert(WeightFormat::kFp8);
  std::vector<FeedForward> experts;
  float* fn[2] = {Make<float>(kMixes * kStreams * kHidden), Make<float>(kMixes* kStreams* kHidden)};
  uint8_t* ring = Make<uint8_t>(kMostRows * kRing * 528);
};

struct Rows {
  explicit Rows(Queue* queue) {
    FillHalves<<<256, 256>>>(streams, kMostRows * kStreams * kHidden, 1.0f);
    FillHalves<<<256, 256>>>(q, kMostRows * kHeads * kWidth, 1.0f);
    FillHalves<<<1, 256>>>(ones, kHidden, 1.0f);
    FillRows<<<1024, 256>>>(pool, kEntries * 288, 288, 256, 0xffu, 0x38u, 4u);
    std::vector<float> cos(kMostRows * kRope / 2, 0.6f), sin(kMostRows * kRope / 2, 0.8f);
    rotation = {List(queue, cos), List(queue, sin), kRope};
    std::vector<int32_t> sequence, chosen, selected, table;
    for (int64_t i = 0; i < kEntries / 64; ++i) table.push_back(static_cast<int32_t>(i));
    blocks = Put(table);
    std::vector<int64_t> ends(kMostRows, 5000);
    std::vector<WindowKeys> windows;
    std::vector<PagedRows> paged;
    for (int64_t r = 0; r < kMostRows; ++r) {
      sequence.push_back(static_cast<int32_t>(r));
      windows.push_back({chunk, kRing, chunk + r * 528, 5000, 0});
      paged.push_back(
          {pool, blocks, 64, 64 * 288, 288, kWidth, RowFormat::kFp4E4M3, kEntries / 64});
      for (int64_t i = 0; i < kSelected; ++i)
        selected.push_back(static_cast<int32_t>(i * (kEntries / kSelected) + r % 8));
    }
    row_sequence = List(queue, sequence);
    window_end = List(queue, ends);
    window_keys = List(queue, windows);
    pages = List(queue, paged);
    selection = Put(selected);
  }
  template <typename T>
  static const T* List(Queue* queue, const std::vector<T>& values) {
    return static_cast<const T*>(
        queue->List(values.data(), static_cast<int64_t>(values.size() * sizeof(T))));
  }
  template <typename T>
  static T* Put(const std::vector<T>& values) {
    T* out = Make<T>(static_cast<int64_t>(values.size()));
    Check(cudaMemcpy(out, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "put");
    return out;
  }

  BF16* streams = Make<BF16>(kMostRows * kStreams * kHidden);
  BF16 *normed = Make<BF16>(kMostRows * kHidden), *quantised = Make<BF16>(kMostRows * kHidden);
  BF16 *low = Make<BF16>(kMostRows * kLow), *low_quantised = Make<BF16>(kMostRows * kLow);
  BF16 *kv = Make<BF16>(kMostRows * kWidth), *q = Make<BF16>(kMostRows * kHeads * kWidth);
  BF16 *heads = Make<BF16>(kMostRows * kHeads * kWidth),
       *o = Make<BF16>(kMostRows * kGroups * kGroupOut);
  BF16 *update = Make<BF16>(kMostRows * kHidden), *ones = Make<BF16>(kHidden);
  float* pre[2] = {Make<float>(kMostRows * kStreams), Make<float>(kMostRows* kStreams)};
  float *post = Make<float>(kMostRows * kStreams), *comb = Make<float>(kMostRows * 16);
  float *base = Make<float>(kMixes), *scale = Make<float>(3), *sink = Make<float>(kHeads);
  float *bias = Make<float>(kExperts), *gate_weights = Make<float>(kMostRows * kTopk);
  int32_t* gate_chosen = Make<int32_t>(kMostRows * kTopk);
  uint8_t *chunk = Make<uint8_t>((kMostRows + kRing) * 528), *pool = Make<uint8_t>(kEntries * 288);
  int32_t *blocks = nullptr, *selection = nullptr;
  Rotation rotation;
  const int32_t* row_sequence = nullptr;
  const int64_t* window_end = nullptr;
  const WindowKeys* window_keys = nullptr;
  const PagedRows* pages = nullptr;
};

class Bench {
 public:
  Bench()
      : stream_{.team = nullptr, .device = CudaMemory().open_queue()},
        queue_(QueueOf(stream_)),
        rows_(&queue_) {
    for (int64_t e = 0; e < kExperts; ++e)
      sets_[0].experts.push_back(RandomExpert(WeightFormat::kFp4));
    uint32_t state = 77;
    for (int s = 0; s < kSets; ++s) {
      for (int64_t e = 0; s > 0 && e < kExperts; ++e)
        sets_[s].experts.push_back(sets_[0].experts[static_cast<size_t>((e + s * 96) % kExperts)]);
      std::vector<const void*> from;
      std::vector<void*> to;
      for (int64_t r = 0; r < kMostRows; ++r) {
        from.push_back(rows_.chunk + r * 528);
        to.push_back(sets_[s].ring + r * kRing * 528);
      }
      from_[s] = Rows::List(&queue_, from);
      to_[s] = Rows::List(&queue_, to);
    }
    for (int l = 0; l < kLayers; ++l) {
      std::vector<int32_t> chosen;
      for (int64_t r = 0; r < kMostRows; ++r) {
        for (int64_t i = 0; i < kTopk; ++i) {
          state = state * 1664525u + 1013904223u;
          chosen.push_back(static_cast<int32_t>(i * 64 + (state >> 8) % 64));
        }
      }
      chosen_[l] = Rows::Put(chosen);
    }
    weights_ = Rows::Put(std::vector<float>(kMostRows * kTopk, 0.25f));
    Check(cudaStreamSynchronize(queue_.plain_stream()), "lists");
    Check(cudaDeviceSynchronize(), "set up");
  }

  void Run(int64_t rows) {
    const int64_t before = queue_.launches();
    for (int l = 0; l < kLayers; ++l) Layer(rows, l, -1);
    queue_.LaunchHeld();
    const auto launches = static_cast<double>(queue_.launches() - before) / kLayers;
    Check(cudaStreamSynchronize(queue_.plain_stream()), "count");
    const double whole = Time(rows, -1);
    fmt::print("rows {}: {:.1f} us a layer, {:.2f} launches\n", rows, whole, launches);
    for (int op = 0; op < static_cast<int>(std::size(kOps)); ++op)
      fmt::print("  {:<20} {:6.1f}\n", kOps[op], whole - Time(rows, op));
    std::fflush(stdout);
  }

 private:
  double Time(int64_t rows, int without) {
    return TimeCalls(&queue_, kLayers, [&](int l) {
      Layer(rows, l, without);
      if (l == kLayers - 1) queue_.LaunchHeld();
    });
  }

  void Layer(int64_t n, int l, int without) {
    int op = 0;
    const auto run = [&](auto call) {
      if (op++ != without) call();
    };
    const Set& w = sets_[l % kSets];
    Attend(n, w, l, run);
    Site(n, w.fn[1], 1, run);
    run([&] {
      Gate({stream_, n, kHidden, kExperts, kTopk, rows_.normed, w.gate, rows_.bias, nullptr,
            nullptr, 1.0f, rows_.gate_chosen, rows_.gate_weights});
    });
    run([&] {
      bench_ops->experts({stream_, n, kHidden, kInner, kTopk, rows_.quantised, chosen_[l], weights_,
                          w.experts, w.shared, 10.0f, RowFormat::kFp8E8M0, rows_.update});
    });
    Finish(n, run);
  }

  template <typename Run>
  void Site(int64_t n, const float* fn, int which, Run run) {
    run([&] {
      HyperPredict({stream_, n, kStreams, kHidden, rows_.streams, fn, rows_.base, rows_.scale, 20,
                    1e-6f, 1e-6f, rows_.pre[which], rows_.ones, RowFormat::kFp8E8M0,
                    rows_.pre[1 - which], rows_.post, rows_.comb, rows_.normed, rows_.quantised});
    });
  }
  template <typename Run>
  void Finish(int64_t n, Run run) {
    run([&] {
      HyperFinish(
          {stream_, n, kStreams, kHidden, rows_.update, rows_.post, rows_.comb, rows_.streams});
    });
  }

  template <typename Run>
  void Attend(int64_t n, const Set& w, int l, Run run) {
    Site(n, w.fn[0], 0, run);
    run([&] {
      const Projection both[] = {{w.wq_a, rows_.low, nullptr}, {w.wkv, rows_.kv, nullptr}};
      bench_ops->linear({stream_, n, kHidden, rows_.quantised, both});
    });
    run([&] {
      Norm({stream_, n, kLow, rows_.low, rows_.ones, 1e-6f, RowFormat::kFp8E8M0, nullptr,
            rows_.low_quantised});
    });
    run([&] {
      WindowRows({stream_, n, kWidth, rows_.kv, rows_.ones, 1e-6f, rows_.rotation,
                  RowFormat::kFp8E8M0, rows_.chunk});
    });
    run([&] {
      const Projection query{w.wq_b, rows_.q, nullptr};
      bench_ops->linear({stream_, n, kLow, rows_.low_quantised, {&query, 1}});
    });
    run([&] {
      Attention({stream_, n, kHeads, kWidth, kWindow, rows_.q, rows_.rotation, 0.0442f, rows_.sink,
                 rows_.row_sequence, rows_.window_end, rows_.window_keys, RowFormat::kFp8E8M0,
                 rows_.pages, rows_.selection, kSelected, rows_.heads});
    });
    run([&] { CopyRows({stream_, n, 528, from_[l % kSets], to_[l % kSets]}); });
    run([&] {
      bench_ops->grouped_linear({stream_, n, kGroups, kHeads * kWidth / kGroups, kGroupOut,
                                 rows_.heads, w.wo_a, RowFormat::kFp8E8M0, rows_.o});
    });
    run([&] {
      const Projection out{w.wo_b, rows_.update, nullptr};
      bench_ops->linear({stream_, n, kGroups * kGroupOut, rows_.o, {&out, 1}});
    });
    Finish(n, run);
  }

  Stream stream_;
  Queue& queue_;
  Set sets_[kSets];
  Rows rows_;
  const void* const* from_[kSets];
  void* const* to_[kSets];
  int32_t* chosen_[kLayers];
  float* weights_;
};

}  // namespace
}  // namespace thalweg::kernels::cuda

int main(int argc, char** argv) {
  using namespace thalweg::kernels;
  using namespace thalweg::kernels::cuda;
  EndAfter(60);
  if (!DeviceStatus().ok()) {
    fmt::print("{}\n", DeviceStatus().message());
    return 1;
  }
  const bool fast = argc > 1 && std::string_view(argv[1]) == "fast";
  bench_ops = &CudaOps(fast ? Numerics::kFast : Numerics::kExact);
  Bench bench;
  std::vector<int64_t> batches;
  for (int i = fast ? 2 : 1; i < argc; ++i) {
    const std::string_view text = argv[i];
    int64_t rows = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), rows);
    if (read.ec != std::errc() || rows < 1 || rows > kMostRows) {
      fmt::print("usage: cuda_layer_bench [fast] [rows up to {}]...\n", kMostRows);
      return 2;
    }
    batches.push_back(rows);
  }
  if (batches.empty()) batches = {1, 8, 64};
  for (const int64_t rows : batches) bench.Run(rows);
  return 0;
}
