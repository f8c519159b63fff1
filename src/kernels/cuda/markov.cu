// The Markov and confidence heads of the drafter (model.md 2.8).
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// The embedding of the previous token [rows, rank], and state and embedding side by side: joined
// [rows, hidden + rank].
__global__ void JoinKernel(MarkovParams p, BF16* embedded, BF16* joined) {
  const int64_t row = blockIdx.x, width = p.hidden + p.rank;
  const int32_t id = p.previous[row] < 0 ? p.newest[-1 - p.previous[row]] : p.previous[row];
  const BF16* embed = p.embed + id * p.rank;
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    joined[row * width + c] =
        c < p.hidden ? p.state[row * p.state_stride + c] : embed[c - p.hidden];
  }
  for (int64_t c = threadIdx.x; c < p.rank; c += blockDim.x) embedded[row * p.rank + c] = embed[c];
}

__global__ void AddKernel(MarkovParams p, const float* correction) {
  const int64_t row = blockIdx.y;
  const int64_t v = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (v < p.vocab) p.logits[row * p.logits_stride + v] += correction[row * p.vocab + v];
}

}  // namespace

void Markov(const MarkovParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  constexpr int64_t kAlign = 256;
  const int64_t width = p.hidden + p.rank;
  const int64_t corrections = base::RoundUp<int64_t>(p.rows * p.vocab * 4, kAlign);
  const int64_t embeddings = base::RoundUp<int64_t>(p.rows * p.rank * 2, kAlign);
  auto* scratch = static_cast<char*>(queue.Scratch(corrections + embeddings + p.rows * width * 2));
  if (scratch == nullptr) return;
  auto* correction = reinterpret_cast<float*>(scratch);
  auto* embedded = reinterpret_cast<BF16*>(scratch + corrections);
  auto* joined = reinterpret_cast<BF16*>(scratch + corrections + embeddings);
  MarkovParams d = p;
  d.previous = queue.Stage(p.previous, p.rows);
  JoinKernel<<<Count(p.rows), kThreads, 0, queue.stream()>>>(d, embedded, joined);
  Product(p.stream, p.head, embedded, p.rank, p.rows, correction);
  const dim3 grid(Count(base::CeilDiv<int64_t>(p.vocab, kThreads)), Count(p.rows));
  AddKernel<<<grid, kThreads, 0, queue.stream()>>>(d, correction);
  Product(p.stream, p.confidence, joined, width, p.rows, p.confidence_out);
}

}  // namespace thalweg::kernels::cuda
