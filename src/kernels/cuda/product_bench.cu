// Matrix products of the CUDA backend at the released shapes: time, bytes of packed weights a
// second and their share of what a copy moves in the same run. Weights are random bits made on the
// device; calls walk over more of them than the cache holds. With `repeat` it calls them some
// thousand times instead, and counts the calls whose bits differ from the first one's.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/bench_units.cuh"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/product_launch.cuh"
#include "kernels/cuda/row_jobs.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int64_t kHidden = 5120, kInner = 2304, kTopk = 6, kExperts = 384;
constexpr int kLayers = 4;  // tables of experts; each has a shared expert of its own

void Check(cudaError_t error) { cuda::Check(error, "CUDA"); }

void* Allocate(int64_t bytes) { return Make<char>(bytes); }

// bf16 values near one half to two, of either sign.
BF16* RandomRows(int64_t count) {
  std::vector<BF16> host(static_cast<size_t>(count));
  uint32_t state = 12345;
  for (BF16& x : host) {
    state = state * 1664525u + 1013904223u;
    x.bits = static_cast<uint16_t>((state >> 16 & 0x8000u) | 0x3f00u | (state >> 24 & 0xf0u));
  }
  void* device = Allocate(count * 2);
  Check(cudaMemcpy(device, host.data(), host.size() * 2, cudaMemcpyHostToDevice));
  Check(
      cudaDeviceSynchronize());  // the copy may be on its way still, and queues do not wait for it
  return static_cast<BF16*>(device);
}

// Microseconds of one call, of many on the queue.
double Time(const Stream& stream, int calls, const std::function<void(int)>& call) {
  Queue& queue = QueueOf(stream);
  cudaEvent_t begin, end;
  Check(cudaEventCreate(&begin));
  Check(cudaEventCreate(&end));
  double best = 1e30;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (int i = 0; i < 3; ++i) call(i);
    Check(cudaEventRecord(begin, queue.stream()));
    for (int i = 0; i < calls; ++i) call(i);
    Check(cudaEventRecord(end, queue.stream()));
    Check(queue.Synchronize());
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, begin, end));
    best = std::min(best, ms * 1e3 / calls);
  }
  return best;
}

double CopyBandwidth(const Stream& stream) {
  const int64_t bytes = int64_t{4} << 30;
  void *from = Allocate(bytes), *to = Allocate(bytes);
  const double us = Time(stream, 5, [&](int) {
    Check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                          QueueOf(stream).stream()));
  });
  Check(cudaFree(from));
  Check(cudaFree(to));
  return 2.0 * static_cast<double>(bytes) / us * 1e-6;
}

void Print(const std::string& name, int64_t rows, double us, double bytes, double flops,
           double ceiling) {
  const double tbs = bytes / us * 1e-6;
  std::printf("| %s | %lld | %.1f | %.2f | %.2f | %.0f |\n", name.c_str(),
              static_cast<long long>(rows), us, tbs, tbs / ceiling, flops / us * 1e-6);
}

struct Layers {
  std::vector<FeedForward> experts[kLayers];
  FeedForward shared[kLayers];
};

FeedForward RandomExpert(WeightFormat format) {
  return {RandomMatrix(format, kInner, kHidden), RandomMatrix(format, kInner, kHidden),
          RandomMatrix(format, kHidden, kInner)};
}

Layers MakeLayers() {
  Layers layers;
  for (int64_t e = 0; e < kExperts; ++e)
    layers.experts[0].push_back(RandomExpert(WeightFormat::kFp4));
  for (int l = 0; l < kLayers; ++l) {
    layers.shared[l] = RandomExpert(WeightFormat::kFp8);
    // The same experts under other numbers.
    if (l > 0) layers.experts[l] = layers.experts[0];
    for (int64_t e = 0; l > 0 && e < kExperts; ++e) {
      layers.experts[l][static_cast<size_t>(e)] =
          layers.experts[0][static_cast<size_t>((e + l * kExperts / kLayers) % kExperts)];
    }
  }
  return layers;
}

void Free(const FeedForward& f) {
  for (const Matrix* m : {&f.w1, &f.w3, &f.w2}) Check(cudaFree(const_cast<void*>(m->packed)));
}
void Free(const Layers& layers) {
  for (const FeedForward& expert : layers.experts[0]) Free(expert);
  for (const FeedForward& shared : layers.shared) Free(shared);
}

int64_t BytesOf(const FeedForward& f) {
  return bench_ops->packed_bytes(f.w1) + bench_ops->packed_bytes(f.w3) +
         bench_ops->packed_bytes(f.w2);
}

// How rows choose: `spread` experts in turn (0: at random).
std::vector<int32_t> Choose(int64_t rows, int64_t spread, uint32_t seed) {
  std::vector<int32_t> out;
  uint32_t state = seed * 77u + 1;
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<bool> taken(kExperts);
    for (int64_t i = 0; i < kTopk; ++i) {
      int64_t e = (r * kTopk + i) % std::max<int64_t>(spread, 1);
      do {
        state = state * 1664525u + 1013904223u;
        if (spread == 0) e = (state >> 8) % kExperts;
      } while (spread == 0 && taken[static_cast<size_t>(e)]);
      taken[static_cast<size_t>(e)] = true;
    }
    for (int64_t e = 0; e < kExperts; ++e) {
      if (taken[static_cast<size_t>(e)]) {
        out.push_back(static_cast<int32_t>((e + seed * 48) % kExperts));
      }
    }
  }
  return out;
}

// Calls of experts over kLayers tables and some choices, the i-th call of kind i % kKinds.
class ExpertCalls {
 public:
  static constexpr int kKinds = 8;
  static_assert(kKinds % kLayers == 0);

  ExpertCalls(const Stream& stream, const Layers& layers, int64_t rows, int64_t spread)
      : stream_(stream), layers_(layers), rows_(rows) {
    for (uint32_t i = 0; i < kKinds; ++i) {
      const std::vector<int32_t> host = Choose(rows, spread, i);
      std::vector<bool> seen(kExperts);
      for (const int32_t e : host) seen[static_cast<size_t>(e)] = true;
      for (const bool s : seen) touched_ += s ? 1.0 / kKinds : 0;
      chosen_.push_back(static_cast<int32_t*>(Allocate(rows * kTopk * 4)));
      Check(cudaMemcpy(chosen_.back(), host.data(), host.size() * 4, cudaMemcpyHostToDevice));
    }
    const std::vector<float> ones(static_cast<size_t>(rows * kTopk), 0.25f);
    weights_ = static_cast<float*>(Allocate(rows * kTopk * 4));
    Check(cudaMemcpy(weights_, ones.data(), ones.size() * 4, cudaMemcpyHostToDevice));
    x_ = RandomRows(rows * kHidden);
    out_ = RandomRows(rows * kHidden);
  }
  ~ExpertCalls() {
    for (int32_t* list : chosen_) Check(cudaFree(list));
    Check(cudaFree(x_));
    Check(cudaFree(out_));
    Check(cudaFree(weights_));
  }
  ExpertCalls(const ExpertCalls&) = delete;
  ExpertCalls& operator=(const ExpertCalls&) = delete;

  void operator()(int i) const {
    const auto at = static_cast<size_t>(i % kLayers);
    bench_ops->experts({stream_, rows_, kHidden, kInner, kTopk, x_,
                        chosen_[static_cast<size_t>(i % kKinds)], weights_, layers_.experts[at],
                        layers_.shared[at], 10.0f, RowFormat::kFp8E8M0, out_});
  }
  double touched() const { return touched_; }
  const BF16* out() const { return out_; }

 private:
  const Stream& stream_;
  const Layers& layers_;
  int64_t rows_;
  double touched_ = 0;  // experts a call, on average
  std::vector<int32_t*> chosen_;
  float* weights_ = nullptr;
  BF16 *x_ = nullptr, *out_ = nullptr;
};

void BenchExperts(const Stream& stream, const Layers& layers, int64_t rows, int64_t spread,
                  const char* name, double ceiling) {
  const ExpertCalls calls(stream, layers, rows, spread);
  const double us = Time(stream, rows > 512 ? 8 : 32, [&](int i) { calls(i); });
  const double bytes = calls.touched() * static_cast<double>(BytesOf(layers.experts[0][0])) +
                       static_cast<double>(BytesOf(layers.shared[0]));
  const double flops = static_cast<double>(rows * (kTopk + 1)) * 6.0 * kHidden * kInner;
  const auto touched = std::to_string(static_cast<int>(calls.touched() + 0.5));
  Print(std::string(name) + ", " + touched + " experts", rows, us, bytes, flops, ceiling);
}

struct Dense {
  const char* name;
  WeightFormat format;
  int64_t in, out, groups;
};
constexpr Dense kDense[] = {{"wq_a + wkv, fp8", WeightFormat::kFp8, 5120, 1792, 1},
                            {"wq_b, fp8", WeightFormat::kFp8, 1280, 32768, 1},
                            {"wo_a, fp8, 8 groups", WeightFormat::kFp8, 4096, 8192, 8},
                            {"wo_b, fp8", WeightFormat::kFp8, 8192, 5120, 1},
                            {"head, bf16", WeightFormat::kBF16, 5120, 129280, 1}};

int64_t BytesOf(const Dense& d) { return d.in * d.out * (d.format == WeightFormat::kBF16 ? 2 : 1); }

// Matrices of one shape, more than the cache holds.
class DenseWeights {
 public:
  explicit DenseWeights(const Dense& d) : dense(d) {
    const int64_t copies = std::max<int64_t>(1, (int64_t{400} << 20) / BytesOf(d));
    for (int64_t i = 0; i < copies; ++i) {
      const Inputs inputs = d.groups > 1 ? Inputs::kPlain : Inputs::kQuantised;
      matrices_.push_back(RandomMatrix(d.format, d.out, d.in, inputs));
    }
    Check(cudaDeviceSynchronize());
  }
  ~DenseWeights() {
    for (const Matrix& m : matrices_) {
      Check(cudaFree(const_cast<void*>(m.packed != nullptr ? m.packed : m.data)));
    }
  }
  DenseWeights(const DenseWeights&) = delete;
  DenseWeights& operator=(const DenseWeights&) = delete;

  int count() const { return static_cast<int>(matrices_.size()); }
  void Multiply(const Stream& stream, int i, int64_t rows, const BF16* x, BF16* out) const {
    const Matrix& w = matrices_[static_cast<size_t>(i % count())];
    const Projection projection{w, out, nullptr};
    if (dense.groups > 1) {
      bench_ops->grouped_linear({stream, rows, dense.groups, dense.in, dense.out / dense.groups, x,
                                 w, RowFormat::kFp8E8M0, out});
    } else {
      bench_ops->linear({stream, rows, dense.in, x, {&projection, 1}});
    }
  }

  const Dense& dense;

 private:
  std::vector<Matrix> matrices_;
};

// Calls run(rows, x, out) for each number of rows, with random rows.
void ForDenseRows(const Dense& d, std::span<const int64_t> counts, int64_t most,
                  const std::function<void(int64_t, const BF16*, BF16*)>& run) {
  for (const int64_t rows : counts) {
    if (rows > most) continue;
    BF16 *x = RandomRows(rows * d.in * d.groups), *out = RandomRows(rows * d.out);
    run(rows, x, out);
    Check(cudaFree(x));
    Check(cudaFree(out));
  }
}

void BenchDense(const Stream& stream, const Dense& d, double ceiling) {
  constexpr int64_t kRows[] = {1, 8, 16, 32, 64, 256, 2048};
  const DenseWeights weights(d);
  const int64_t most = d.format == WeightFormat::kBF16 ? 256 : 2048;
  ForDenseRows(d, kRows, most, [&](int64_t rows, const BF16* x, BF16* out) {
    const double us = Time(stream, std::max(weights.count(), 8),
                           [&](int i) { weights.Multiply(stream, i, rows, x, out); });
    Print(d.name, rows, us, static_cast<double>(BytesOf(d)),
          2.0 * static_cast<double>(rows * d.in * d.out), ceiling);
  });
}

// A sum of a call's outputs, each of whose bits counts, behind the call on the queue. Starts early,
// as a step's kernels do, so that calls still overlap.
__global__ void SumKernel(const uint16_t* out, int64_t n, unsigned long long* sum) {
  WaitForEarlier();
  unsigned long long mine = 0;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    const uint64_t value = static_cast<uint64_t>(i) << 16 | out[i];
    mine += static_cast<uint64_t>(Mixed(value, 1)) << 32 | Mixed(value, 2);
  }
  atomicAdd(sum, mine);
}

// Whether `calls` calls, the i-th of kind i % kinds, give the sums of the first of their kind.
void Repeat(const Stream& stream, const char* name, int64_t rows, int calls, int kinds,
            const BF16* out, int64_t count, const std::function<void(int)>& call) {
  Queue& queue = QueueOf(stream);
  auto* sums = Make<unsigned long long>(calls);
  Check(cudaDeviceSynchronize());
  for (int i = 0; i < calls; ++i) {
    call(i);
    queue.LaunchHeld();
    LaunchEarly(&queue, SumKernel, dim3(Count(MultiprocessorCount())), 512, 0,
                reinterpret_cast<const uint16_t*>(out), count, sums + i);
  }
  Check(queue.Synchronize());
  std::vector<unsigned long long> host(static_cast<size_t>(calls));
  Check(cudaMemcpy(host.data(), sums, host.size() * 8, cudaMemcpyDeviceToHost));
  int differ = 0;
  for (size_t i = 0; i < host.size(); ++i)
    differ += host[i] != host[i % static_cast<size_t>(kinds)];
  std::printf("| %s | %lld | %d | %d | %016llx |\n", name, static_cast<long long>(rows), calls,
              differ, host[0]);
  std::fflush(stdout);
  Check(cudaFree(sums));
}

void RepeatExperts(const Stream& stream) {
  const Layers layers = MakeLayers();
  for (const int64_t rows : {1, 3, 8, 64, 128, 256, 512, 1024, 4096}) {
    const ExpertCalls calls(stream, layers, rows, 0);
    Repeat(stream, "experts", rows, rows > 512 ? 200 : 800, ExpertCalls::kKinds, calls.out(),
           rows * kHidden, [&](int i) { calls(i); });
  }
  Free(layers);
}

void RepeatDense(const Stream& stream, const Dense& d) {
  constexpr int64_t kRows[] = {1, 5, 8, 13, 16, 32, 64, 100, 256, 2048};
  const bool head = d.format == WeightFormat::kBF16;
  const DenseWeights weights(d);
  ForDenseRows(d, kRows, head ? 256 : 2048, [&](int64_t rows, const BF16* x, BF16* out) {
    const int calls = head ? 100 : rows > 256 ? 300 : 2000;
    Repeat(stream, d.name, rows, calls, weights.count(), out, rows * d.out,
           [&](int i) { weights.Multiply(stream, i, rows, x, out); });
  });
}

// The same calls again and again: every one has to have the bits of the first. The sums tell
// builds apart.
void BenchRepeats() {
  const Stream stream{.team = nullptr, .device = CudaMemory().open_queue()};
  std::printf("| product | rows | calls | differ | sum |\n|---|---|---|---|---|\n");
  RepeatExperts(stream);
  for (const Dense& d : kDense) RepeatDense(stream, d);
  CudaMemory().close_queue(stream.device);
}

void Bench(bool experts, bool dense) {
  const Stream stream{.team = nullptr, .device = CudaMemory().open_queue()};
  const double ceiling = CopyBandwidth(stream);
  std::printf("copy: %.2f TB/s read and written\n", ceiling);
  std::printf(
      "| product | rows | us | TB/s of weights | share of copy | TFLOP/s "
      "|\n|---|---|---|---|---|---|\n");
  if (experts) {
    const Layers layers = MakeLayers();
    for (const int64_t rows : {1, 8, 64, 256, 512, 1024, 2048, 4096}) {
      BenchExperts(stream, layers, rows, 0, "random", ceiling);
    }
    BenchExperts(stream, layers, 8, 6, "shared choice", ceiling);
    BenchExperts(stream, layers, 61, 46, "46 in turn", ceiling);
    BenchExperts(stream, layers, 512, 48, "48 in turn", ceiling);
    Free(layers);
  }
  for (const Dense& d : kDense) {
    if (dense) BenchDense(stream, d, ceiling);
  }
  CudaMemory().close_queue(stream.device);
}

}  // namespace
}  // namespace thalweg::kernels::cuda

int main(int argc, char** argv) {
  using namespace thalweg::kernels;
  using namespace thalweg::kernels::cuda;
  const std::string which = argc > 1 ? argv[1] : "all";
  if (!DeviceStatus().ok()) {
    std::fprintf(stderr, "%s\n", DeviceStatus().message().c_str());
    return 1;
  }
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    bench_ops = &CudaOps(numerics);
    std::printf("%s numerics\n", numerics == Numerics::kFast ? "fast" : "exact");
    if (which == "repeat") {
      BenchRepeats();
    } else {
      Bench(which != "dense", which != "experts");
    }
  }
  return 0;
}
