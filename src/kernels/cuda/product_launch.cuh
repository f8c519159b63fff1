// How a matrix product is put on a queue: which width of tile, how many blocks, how many ranks.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>

#include "kernels/cuda/chosen_device.h"
#include "kernels/cuda/launch_early.cuh"
#include "kernels/cuda/product_wide.cuh"

namespace thalweg::kernels::cuda {

// Tiles of packed weights where K is split over a cluster, for few rows and few tiles; several
// small blocks on a multiprocessor keep many loads under way.
using OneUnits = FewShape<8, 3, 5>;
using FewWide = WideShape<1, 1, 6, 2, 32>;
// Tiles of packed weights where there are many.
using ManyNarrow = RingShape<2, 4, 4, 2, 8, 16>;
using MiddleWide = WideShape<1, 1, 6, 2, 64>;
using SmallWide = WideShape<1, 1, 4, 2, 128>;
using LargeWide = WideShape<2, 1, 7, 1, 128>;
// Packed weights that a ring does not take (RingTakes), and other weights.
using OddUnits = Shape<2, 1, 64, 1, 4, 2>;
using FewHalves = Shape<1, 1, 8, 2, 5, 2>;
using ManyHalves = Shape<2, 1, 64, 1, 4, 1>;
using MostHalves = Shape<2, 1, 128, 1, 4, 1>;
using FewFloats = Shape<1, 1, 8, 1, 5, 2>;
using ManyFloats = Shape<1, 1, 64, 1, 4, 1>;

inline constexpr int kLeastRankUnits = 16;  // units of K that are worth a block

inline int UnitsOf(int64_t width) {
  return static_cast<int>(base::CeilDiv(width, int64_t{kUnitCols}));
}

// Ranks that share K: by K alone, for the order of the sums depends on it.
inline int RanksOf(int64_t width) {
  int ranks = 1;
  while (ranks < kMostRanks && UnitsOf(width) >= 2 * ranks * kLeastRankUnits) ranks *= 2;
  return ranks;
}

inline int MultiprocessorCount() {
  static const int count = [] {
    int device = 0, sms = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    return std::max(sms, 1);
  }();
  return count;
}

// Blocks of a kernel that run at once, and leave for it to use its shared memory.
template <typename Kernel>
int ResidentBlocks(Queue* queue, Kernel* kernel, int threads, int bytes) {
  AllowShared(queue, kernel, bytes);
  queue->Note(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                   cudaFuncAttributePreferredSharedMemoryCarveout,
                                   cudaSharedmemCarveoutMaxShared));
  int blocks = 0;
  queue->Note(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads,
                                                            static_cast<size_t>(bytes)));
  return std::max(blocks, 1) * MultiprocessorCount();
}

// ResidentBlocks of one kernel, asked once on each device: what a kernel may use is the device's.
class OncePerDevice {
 public:
  template <typename Kernel>
  int Of(Queue* queue, Kernel* kernel, int threads, int bytes) {
    std::atomic<int>& known = blocks_[static_cast<size_t>(queue->device())];
    if (known == 0) known = ResidentBlocks(queue, kernel, threads, bytes);
    return known;
  }

 private:
  std::array<std::atomic<int>, kMostDevices> blocks_ = {};
};

template <typename S>
inline constexpr bool kIsFew = false;
template <int kCols, int kStages, int kBlocks>
inline constexpr bool kIsFew<FewShape<kCols, kStages, kBlocks>> = true;

template <typename S>
inline constexpr bool kIsRing = false;
template <int kG, int kU, int kS, int kB, int... kWidths>
inline constexpr bool kIsRing<RingShape<kG, kU, kS, kB, kWidths...>> = true;

template <typename S>
inline constexpr bool kIsWide = false;
template <int kG, int kQ, int kS, int kB, int... kWidths>
inline constexpr bool kIsWide<WideShape<kG, kQ, kS, kB, kWidths...>> = true;

// How a kernel is launched: in clusters, and whether it may start before the one in front of it has
// ended (it calls AwaitKernelBefore).
struct Start {
  int cluster = 1;
  bool early = false;
};

template <typename... Parameters, typename... Args>
void LaunchAs(Queue* queue, void (*kernel)(Parameters...), dim3 grid, int threads, int bytes,
              Start start, const Args&... args) {
  cudaLaunchAttribute attributes[3] = {MostShared()};
  unsigned count = 1;
  if (start.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(start.cluster), 1, 1};
  }
  if (start.early) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = queue->stream();
  config.attrs = attributes;
  config.numAttrs = count;
  queue->Note(cudaLaunchKernelEx(&config, kernel, args...));
}

// Runs a kernel of matrix products on `clusters` clusters.
template <typename Op, typename Kernel>
void LaunchOn(Queue* queue, Kernel* kernel, const Op& op, int64_t clusters, Start start,
              int threads, int bytes, auto... args) {
  LaunchAs(queue, kernel, dim3(Count(clusters * start.cluster)), threads, bytes, start, op,
           UnitsOf(op.width), args...);
}

// Brings the input rows of at most `tiles` tiles to op.packed.
template <typename Op>
void PackInputs(Queue* queue, const Op& op, int64_t tiles, bool early) {
  constexpr int64_t kMostTiles = 1024;  // of one block
  const dim3 grid(Count(UnitsOf(op.width)), Count(std::min(tiles, kMostTiles)));
  LaunchAs(queue, PackInputsKernel<Op>, grid, 256, 0, {1, early}, op);
}

// Runs a ring kernel over at most `tiles` tiles, by clusters of `cluster` blocks with a rank of K
// each.
template <typename Ring>
void LaunchRing(Queue* queue, const typename Ring::Op& op, int64_t tiles, int ranks, int cluster,
                bool early) {
  using S = typename Ring::Shape;
  if (tiles == 0) return;
  const auto kernel = RingKernel<Ring>;
  constexpr int kBytes = Ring::Layout::kBytes;
  static OncePerDevice once;
  const int resident = once.Of(queue, kernel, S::kThreads, kBytes);
  const int64_t clusters = std::min<int64_t>(tiles, std::max(1, resident / cluster));
  LaunchOn(queue, kernel, op, clusters, {cluster, early}, S::kThreads, kBytes, ranks, cluster);
}

// Runs the op on at most `tiles` tiles.
template <typename S, Operand kOperand, typename Op>
void LaunchProduct(Queue* queue, const Op& op, int64_t tiles, int ranks) {
  if (tiles == 0) return;
  if constexpr (kIsRing<S>) {
    static_assert(kOperand == Operand::kUnits);
    const int cluster = tiles < MultiprocessorCount() ? ranks : 1;
    LaunchRing<NarrowRing<Op, S>>(queue, op, tiles, ranks, cluster, Op::kStartsEarly);
  } else if constexpr (kIsWide<S>) {
    static_assert(kOperand == Operand::kUnits);
    const int cluster = tiles < MultiprocessorCount() ? ranks : 1;
    LaunchRing<WideRing<Op, S>>(queue, op, tiles, ranks, cluster, true);
  } else if constexpr (kIsFew<S>) {
    static_assert(kOperand == Operand::kUnits);
    const auto kernel = FewKernel<Op, S>;
    static OncePerDevice once;
    const int resident = once.Of(queue, kernel, S::kThreads, kFewBytes<S>);
    // A cluster where tiles alone would leave multiprocessors without work.
    const int cluster = tiles < 2 * MultiprocessorCount() ? ranks : 1;
    const int64_t clusters = std::min<int64_t>(tiles, std::max(1, resident / cluster));
    LaunchOn(queue, kernel, op, clusters, {cluster, Op::kStartsEarly}, S::kThreads, kFewBytes<S>,
             ranks, cluster);
  } else {
    const auto kernel = ProductKernel<Op, S, kOperand>;
    constexpr int kBytes = Layout<S, kOperand>::kBytes;
    static OncePerDevice once;
    const int resident = once.Of(queue, kernel, S::kThreads, kBytes);
    LaunchOn(queue, kernel, op, std::min<int64_t>(tiles, resident), {}, S::kThreads, kBytes, ranks);
  }
}

inline bool CopiesInPieces(const BF16* x, int64_t stride, int64_t width) {
  return stride % 8 == 0 && width % 8 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
}

// Whether a RingShape can run the op.
template <typename Op>
bool RingTakes(const Op& op) {
  return op.inputs_aligned && op.width % kUnitCols == 0;
}

// Calls run(shape) with the tiles that suit packed weights of `tiles` times 64 rows. Bits are those
// of any other.
template <typename Op, typename Run>
void ChooseUnits(const Op& op, int64_t tiles, Run run) {
  constexpr int64_t kNarrow = 16, kFew = 32, kMiddle = 64, kRow = 128;  // input rows
  const bool many = tiles >= 2 * MultiprocessorCount();
  if (!RingTakes(op)) return run(OddUnits());
  if (op.rows <= kNarrow && many) return run(ManyNarrow());
  if (op.rows <= OneUnits::kCols) return run(OneUnits());
  if (op.rows <= kFew && !many) return run(FewWide());
  if (op.rows <= kMiddle) return run(MiddleWide());
  const int64_t large = base::CeilDiv(tiles, int64_t{2}) * base::CeilDiv(op.rows, kRow);
  if (large < MultiprocessorCount()) return run(SmallWide());
  return run(LargeWide());
}

inline Operand OperandOf(const Matrix& w) {
  if (w.packed != nullptr) return Operand::kUnits;
  return w.format == WeightFormat::kF32 ? Operand::kFloats : Operand::kHalves;
}

}  // namespace thalweg::kernels::cuda
