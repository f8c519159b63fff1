// Matrix products of the CUDA backend at the released shapes: time, bytes of packed weights a
// second and their share of what a copy moves in the same run. Weights are random bits made on the
// device; calls walk over more of them than the cache holds.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/bench_units.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/memory.h"

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

void BenchExperts(const Stream& stream, const Layers& layers, int64_t rows, int64_t spread,
                  const char* name, double ceiling) {
  constexpr int kChoices = 8;
  const int calls = rows > 512 ? 8 : 32;
  std::vector<int32_t*> chosen;
  double touched = 0;
  for (uint32_t i = 0; i < kChoices; ++i) {
    const std::vector<int32_t> host = Choose(rows, spread, i);
    std::vector<bool> seen(kExperts);
    for (const int32_t e : host) seen[static_cast<size_t>(e)] = true;
    for (const bool s : seen) touched += s ? 1.0 / kChoices : 0;
    chosen.push_back(static_cast<int32_t*>(Allocate(rows * kTopk * 4)));
    Check(cudaMemcpy(chosen.back(), host.data(), host.size() * 4, cudaMemcpyHostToDevice));
  }
  const BF16* x = RandomRows(rows * kHidden);
  BF16* out = RandomRows(rows * kHidden);
  const std::vector<float> ones(static_cast<size_t>(rows * kTopk), 0.25f);
  auto* weights = static_cast<float*>(Allocate(rows * kTopk * 4));
  Check(cudaMemcpy(weights, ones.data(), ones.size() * 4, cudaMemcpyHostToDevice));
  const double us = Time(stream, calls, [&](int i) {
    const auto at = static_cast<size_t>(i % kLayers);
    bench_ops->experts({stream, rows, kHidden, kInner, kTopk, x,
                        chosen[static_cast<size_t>(i % kChoices)], weights, layers.experts[at],
                        layers.shared[at], 10.0f, RowFormat::kFp8E8M0, out});
  });
  const double bytes = touched * static_cast<double>(BytesOf(layers.experts[0][0])) +
                       static_cast<double>(BytesOf(layers.shared[0]));
  const double flops = static_cast<double>(rows * (kTopk + 1)) * 6.0 * kHidden * kInner;
  Print(std::string(name) + ", " + std::to_string(static_cast<int>(touched + 0.5)) + " experts",
        rows, us, bytes, flops, ceiling);
  for (int32_t* list : chosen) Check(cudaFree(list));
  Check(cudaFree(const_cast<BF16*>(x)));
  Check(cudaFree(out));
  Check(cudaFree(weights));
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

void BenchDense(const Stream& stream, const Dense& d, double ceiling) {
  const int64_t bytes = d.in * d.out * (d.format == WeightFormat::kBF16 ? 2 : 1);
  const auto copies = static_cast<int>(std::max<int64_t>(1, (int64_t{400} << 20) / bytes));
  std::vector<Matrix> matrices;
  for (int i = 0; i < copies; ++i) {
    const Inputs inputs = d.groups > 1 ? Inputs::kPlain : Inputs::kQuantised;
    matrices.push_back(RandomMatrix(d.format, d.out, d.in, inputs));
  }
  for (const int64_t rows : {1, 8, 16, 32, 64, 256, 2048}) {
    if (d.format == WeightFormat::kBF16 && rows > 256) continue;
    const BF16* x = RandomRows(rows * d.in * d.groups);
    BF16* out = RandomRows(rows * d.out);
    const double us = Time(stream, std::max(copies, 8), [&](int i) {
      const Matrix& w = matrices[static_cast<size_t>(i % copies)];
      const Projection projection{w, out, nullptr};
      if (d.groups > 1) {
        bench_ops->grouped_linear(
            {stream, rows, d.groups, d.in, d.out / d.groups, x, w, RowFormat::kFp8E8M0, out});
      } else {
        bench_ops->linear({stream, rows, d.in, x, {&projection, 1}});
      }
    });
    Print(d.name, rows, us, static_cast<double>(bytes),
          2.0 * static_cast<double>(rows * d.in * d.out), ceiling);
    Check(cudaFree(const_cast<BF16*>(x)));
    Check(cudaFree(out));
  }
  for (const Matrix& m : matrices) {
    Check(cudaFree(const_cast<void*>(m.packed != nullptr ? m.packed : m.data)));
  }
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
  const std::string which = argc > 1 ? argv[1] : "all";
  if (!thalweg::kernels::cuda::DeviceStatus().ok()) {
    std::fprintf(stderr, "%s\n", thalweg::kernels::cuda::DeviceStatus().message().c_str());
    return 1;
  }
  using namespace thalweg::kernels;
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    cuda::bench_ops = &cuda::CudaOps(numerics);
    std::printf("%s numerics\n", numerics == Numerics::kFast ? "fast" : "exact");
    cuda::Bench(which != "dense", which != "experts");
  }
  return 0;
}
