// Rows moved as bytes.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/copy_rows.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch_early.cuh"
#include "kernels/cuda/row_jobs.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void GatherKernel(CompactRowsParams p) {
  WaitForEarlier();
  CopyBytes(static_cast<char*>(p.scratch) + blockIdx.x * p.bytes,
            static_cast<const char*>(p.data) + p.kept[blockIdx.x] * p.bytes, p.bytes);
}

}  // namespace

void CopyRows(const CopyRowsParams& p) {
  if (p.count == 0 || p.bytes == 0) return;
  Queue& queue = QueueOf(p.stream);
  CopyRowsParams d = p;
  d.from = queue.Stage(p.from, p.count);
  d.to = queue.Stage(p.to, p.count);
  // What is copied may be window rows that are held: a draft's context has nothing in between.
  if (queue.held().copies.count > 0 || queue.held().window_rows > 0) queue.LaunchHeld();
  queue.held().copies = d;
}

void CompactRows(const CompactRowsParams& p) {
  if (p.count == 0 || p.bytes == 0) return;
  Queue& queue = QueueOf(p.stream);
  CompactRowsParams d = p;
  d.kept = queue.Stage(p.kept, p.count);
  LaunchEarly(&queue, GatherKernel, Count(p.count), kThreads, 0, d);
  queue.Note(cudaMemcpyAsync(p.data, p.scratch, static_cast<size_t>(p.count * p.bytes),
                             cudaMemcpyDefault, queue.stream()));
}

}  // namespace thalweg::kernels::cuda
