// Acceptance of drafts, and lists that depend on it: integers that never leave the device before
// the next kernels read them.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void AcceptKernel(AcceptParams p) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= p.blocks_count) return;
  const DraftedRows block = p.blocks[i];
  const int32_t* chosen = p.tokens + block.first_row;
  const int32_t* drafts = p.newest + block.drafts;
  int32_t accepted = 0;
  while (accepted + 1 < block.rows && chosen[accepted] == drafts[accepted]) ++accepted;
  p.accepted[i] = accepted;
  p.newest[block.slot] = max(chosen[accepted], 0);
}

// A block a sequence.
__global__ void __launch_bounds__(kThreads) AdvanceKernel(AdvanceParams p) {
  const int64_t sequence = blockIdx.x, thread = threadIdx.x;
  const int32_t of = p.of[sequence];
  const int64_t by = of < 0 ? 0 : p.accepted[of];
  if (thread < p.block) {
    p.window_end[sequence * p.block + thread] += by;
    p.choices[thread * p.sequences + sequence].position += by;
  }
  if (thread < p.stages) p.window_keys[thread * p.sequences + sequence].chunk_begin += by;
  const int64_t half = p.rotation.rope_dim / 2, values = p.block * half;
  const int64_t from = (sequence * p.ahead_rows + by) * half;
  auto* cos = const_cast<float*>(p.rotation.cos) + sequence * values;
  auto* sin = const_cast<float*>(p.rotation.sin) + sequence * values;
  for (int64_t i = thread; i < values; i += kThreads) {
    cos[i] = p.ahead.cos[from + i];
    sin[i] = p.ahead.sin[from + i];
  }
}

}  // namespace

void Accept(const AcceptParams& p) {
  if (p.blocks_count == 0) return;
  Queue& queue = QueueOf(p.stream);
  AcceptParams d = p;
  d.blocks = queue.Stage(p.blocks, p.blocks_count);
  const auto grid = Count(base::CeilDiv<int64_t>(p.blocks_count, kThreads));
  AcceptKernel<<<grid, kThreads, 0, queue.stream()>>>(d);
}

void Advance(const AdvanceParams& p) {
  if (p.sequences == 0) return;
  Queue& queue = QueueOf(p.stream);
  if (std::max(p.block, p.stages) > kThreads) return queue.Note(cudaErrorNotSupported);
  const int64_t angles = p.sequences * p.ahead_rows * p.ahead.rope_dim / 2;
  AdvanceParams d = p;
  d.of = queue.Stage(p.of, p.sequences);
  d.ahead.cos = queue.Stage(p.ahead.cos, angles);
  d.ahead.sin = queue.Stage(p.ahead.sin, angles);
  AdvanceKernel<<<Count(p.sequences), kThreads, 0, queue.stream()>>>(d);
}

}  // namespace thalweg::kernels::cuda
