#include <algorithm>

#include "kernels/cuda/choose_experts.cuh"
#include "kernels/cuda/coefficients.cuh"
#include "kernels/cuda/combine_rows.cuh"
#include "kernels/cuda/copy_rows.cuh"
#include "kernels/cuda/encode_rows.cuh"
#include "kernels/cuda/launch_early.cuh"
#include "kernels/cuda/list_experts.cuh"
#include "kernels/cuda/norm_rows.cuh"
#include "kernels/cuda/row_jobs.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int64_t kMostJobBytes = 128 << 10;
constexpr int kCombineThreads = 128;
constexpr int kRowsOfChoice = kRowJobThreads / kWarp;  // of a block

// Eight rows, or all of them where lists are made of them.
__device__ void ChooseRows(const HeldJobs& j, int64_t block, float* table) {
  const int64_t first = block * kRowsOfChoice, rest = j.choose.rows - first;
  ChooseByBlock(j.choose, j.products, first, static_cast<int>(min(rest, int64_t{kRowsOfChoice})),
                table);
  if (j.list.rows == 0) return;
  __syncthreads();
  ListByBlock<kRowJobThreads>(j.list);
}

// Copies and window rows first: they read what is far away.
__global__ void __launch_bounds__(kRowJobThreads) JobsKernel(const __grid_constant__ HeldJobs j) {
  extern __shared__ __align__(16) BF16 shared_row[];
  WaitForEarlier();
  int64_t block = blockIdx.x;
  const auto take = [&](int64_t blocks) {
    block -= blocks;
    return block < 0;
  };
  if (take(j.copies.count)) {
    const int64_t i = block + j.copies.count;
    return CopyBytes(static_cast<char*>(j.copies.to[i]), static_cast<const char*>(j.copies.from[i]),
                     j.copies.bytes);
  }
  if (take(j.coefficients.rows)) {
    if (threadIdx.x == 0) *j.readers = 0;
    return MakeCoefficients(j.coefficients, j.partial, block + j.coefficients.rows);
  }
  if (take(j.window_rows)) return EncodeOne(j.window, block + j.window_rows, shared_row);
  if (take(j.norm.rows)) return NormOne(j.norm, block + j.norm.rows);
  ChooseRows(j, block, reinterpret_cast<float*>(shared_row));
}

// kEach values a thread.
template <typename Piece, int kEach>
__global__ void __launch_bounds__(kCombineThreads) CombineKernel(const CombineJob job) {
  WaitForEarlier();
  const int64_t row = blockIdx.y;
  const int64_t c = (int64_t{blockIdx.x} * kCombineThreads + threadIdx.x) * kEach;
  if (c >= job.hidden) return;
  *reinterpret_cast<Piece*>(job.out + row * job.hidden + c) =
      CombinedPiece<Piece, kEach>(job, row, c);
}

template <typename Piece, int kEach>
void LaunchCombineOf(Queue* queue, const CombineJob& job) {
  const int64_t blocks = base::CeilDiv(job.hidden, int64_t{kCombineThreads} * kEach);
  LaunchEarly(queue, CombineKernel<Piece, kEach>, dim3(Count(blocks), Count(job.rows)),
              kCombineThreads, 0, job);
}

void LaunchCombine(Queue* queue, const CombineJob& job) {
  constexpr int kEach = sizeof(uint4) / sizeof(BF16);
  const auto places = reinterpret_cast<uintptr_t>(job.y) | reinterpret_cast<uintptr_t>(job.out);
  if (job.hidden % kEach == 0 && places % sizeof(uint4) == 0) {
    return LaunchCombineOf<uint4, kEach>(queue, job);
  }
  LaunchCombineOf<BF16, 1>(queue, job);
}

}  // namespace

void LaunchJobs(Queue* queue, const HeldJobs& jobs) {
  const int64_t blocks = jobs.copies.count + jobs.coefficients.rows + jobs.window_rows +
                         jobs.norm.rows + base::CeilDiv<int64_t>(jobs.choose.rows, kRowsOfChoice);
  if (blocks > 0) {
    const int64_t width = jobs.window_rows > 0 ? jobs.window.width : 0;
    const int64_t scored = std::min<int64_t>(jobs.choose.rows, kRowsOfChoice);
    const int64_t shared = std::max(width * static_cast<int64_t>(sizeof(BF16)),
                                    ScoreBytes(scored, jobs.choose.experts));
    if (shared > kFreeShared / 4) AllowShared(queue, JobsKernel, kMostJobBytes);
    LaunchEarly(queue, JobsKernel, Count(blocks), kRowJobThreads, shared, jobs);
  }
  if (jobs.combine.rows > 0) LaunchCombine(queue, jobs.combine);
  if (jobs.finish.rows > 0) LaunchFinish(queue, jobs.finish);
}

}  // namespace thalweg::kernels::cuda
