// The matrix product for few input rows over packed weights: limited by memory, so weights go from
// there into the registers of the warp that multiplies them, some units ahead of their use, and
// only the input rows pass through shared memory. Instructions are of 16 x 8 x 16: they add in the
// order of the wide ones of product.cuh and give the same bits, which the tests hold them to.
#pragma once

#include <type_traits>

#include "kernels/cuda/product.cuh"
#include "kernels/cuda/ring.cuh"

namespace thalweg::kernels::cuda {

// kCols input rows; kInputStages stages of kFewUnits units of K; kBlocks of 64 weight rows each on
// a multiprocessor.
template <int kCols_, int kInputStages_, int kBlocks_>
struct FewShape {
  static constexpr int kGroups = 1, kQuads = 1, kCols = kCols_;
  static constexpr int kStages = kInputStages_, kBlocks = kBlocks_;
  static constexpr int kThreads = 128, kRows = 64, kSlabs = 4;
};

inline constexpr int kFewUnits = 8;
inline constexpr int kFewGroupBytes = kFewUnits * 8 * kCoreBytes;  // 8 input rows of a stage

template <typename S>
inline constexpr int kFewBytes =
    S::kStages* S::kCols / 8 * kFewGroupBytes + S::kCols* kSumPitch * 4;

// Weights are read once: they leave no trace in the first cache. Nothing is read, and no branch
// taken, where `read` is false.
__device__ inline void LoadOnce(const void* from, bool read, uint4* to) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n"
      "@p ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];\n}\n"
      : "+r"(to->x), "+r"(to->y), "+r"(to->z), "+r"(to->w)
      : "l"(from), "r"(static_cast<int>(read)));
}
__device__ inline void LoadOnce(const void* from, bool read, uint2* to) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\n"
      "@p ld.global.nc.L1::no_allocate.L2::128B.v2.u32 {%0, %1}, [%2];\n}\n"
      : "+r"(to->x), "+r"(to->y)
      : "l"(from), "r"(static_cast<int>(read)));
}
__device__ inline void LoadOnce(const void* from, bool read, uint32_t* to) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n"
      "@p ld.global.nc.L1::no_allocate.L2::128B.u32 %0, [%1];\n}\n"
      : "+r"(*to)
      : "l"(from), "r"(static_cast<int>(read)));
}

// What a lane holds of a unit before it is unpacked.
struct Fp4Lane {
  static constexpr int kUnitBytes = kFp4UnitBytes, kAhead = 4;
  uint4 codes = {};
  uint32_t scales = 0;
  __device__ void Load(const char* unit, int lane, bool read) {
    LoadOnce(unit + lane * 16, read, &codes);
    LoadOnce(unit + 512 + lane / 4 * 4, read, &scales);
  }
  __device__ void LoadShared(uint32_t unit, int lane) {
    codes = LoadShared128(unit + lane * 16);
    scales = LoadShared32(unit + 512 + lane / 4 * 4);
  }
  __device__ void Unpack(uint32_t (&a)[kUnitSteps][4]) const {
    const uint32_t low0 = __byte_perm(scales, 0, 0x4040) << 7;
    const uint32_t low1 = __byte_perm(scales, 0, 0x4141) << 7;
    const uint32_t high0 = __byte_perm(scales, 0, 0x4242) << 7;
    const uint32_t high1 = __byte_perm(scales, 0, 0x4343) << 7;
    PairsOfFp4(codes.x, low0, high0, a[0]);
    PairsOfFp4(codes.y, low0, high0, a[1]);
    PairsOfFp4(codes.z, low1, high1, a[2]);
    PairsOfFp4(codes.w, low1, high1, a[3]);
  }
};
struct Fp8Lane {
  static constexpr int kUnitBytes = kFp8UnitBytes, kAhead = 2;
  uint4 first = {}, second = {};
  uint4 factors = {};
  __device__ void Load(const char* unit, int lane, bool read) {
    LoadOnce(unit + lane * 16, read, &first);
    LoadOnce(unit + 512 + lane * 16, read, &second);
    LoadOnce(unit + 1024, read, &factors);
  }
  __device__ void LoadShared(uint32_t unit, int lane) {
    first = LoadShared128(unit + lane * 16);
    second = LoadShared128(unit + 512 + lane * 16);
    factors = LoadShared128(unit + 1024);
  }
  __device__ void Unpack(uint32_t (&a)[kUnitSteps][4]) const {
    PairsOfFp8(first.x, factors.x, a[0]);
    PairsOfFp8(first.y, factors.x, a[0] + 2);
    PairsOfFp8(first.z, factors.x, a[1]);
    PairsOfFp8(first.w, factors.x, a[1] + 2);
    PairsOfFp8(second.x, factors.y, a[2]);
    PairsOfFp8(second.y, factors.y, a[2] + 2);
    PairsOfFp8(second.z, factors.y, a[3]);
    PairsOfFp8(second.w, factors.y, a[3] + 2);
    MarkNaN(factors.z, static_cast<int>(threadIdx.x) % kWarp, a[0]);
  }
};

// acc += A B for the four steps of a unit; inputs: its first core matrix.
template <int N>
__device__ inline void MultiplyUnit(const uint32_t (&a)[kUnitSteps][4], uint32_t inputs, int lane,
                                    float (&acc)[N / 2]) {
#pragma unroll
  for (int i = 0; i < N / 8; ++i) {
#pragma unroll
    for (int s = 0; s < kUnitSteps; s += 2) {
      uint32_t b[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                   : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                   : "r"(inputs + i * kFewGroupBytes + s * 2 * kCoreBytes + lane * 16));
      MultiplySmall(&acc[4 * i], a[s], b[0], b[1]);
      MultiplySmall(&acc[4 * i], a[s + 1], b[2], b[3]);
    }
  }
}

// Input rows of one tile, copied stage by stage.
template <typename Op, typename S>
class FewInputs {
 public:
  __device__ FewInputs(const Op& op, const typename Op::Item& item, uint32_t stages)
      : op_(op), stages_(stages) {
#pragma unroll
    for (int i = 0; i < S::kCols / 8; ++i) {
      rows_[i] = op.InputRow(item, i * 8 + static_cast<int>(threadIdx.x) % 8);
    }
  }
  __device__ uint32_t StageAt(int chunk) const {
    return stages_ + chunk % S::kStages * (S::kCols / 8 * kFewGroupBytes);
  }
  // Starts the copy of the units from `unit` on, unless they are behind `end`.
  __device__ void Issue(int chunk, int unit, int end) const {
    const uint32_t mine = StageAt(chunk) + threadIdx.x * 16;
#pragma unroll
    for (int i = 0; i < S::kCols / 8; ++i) {
      if (rows_[i] == nullptr) continue;
#pragma unroll
      for (int j = 0; j < kCores; ++j) {
        // Eight lanes write a core matrix; the block has 16 of them at a time.
        const int core = static_cast<int>(threadIdx.x) / 8 + j * 16;
        if (unit + core / 8 >= end) continue;
        IssuePiece(mine + i * kFewGroupBytes + j * 16 * kCoreBytes, rows_[i],
                   unit * kUnitCols + core * 8);
      }
    }
    CommitCopies();
  }

 private:
  static constexpr int kCores = kFewUnits * 8 / 16;
  __device__ void IssuePiece(uint32_t at, const BF16* row, int col) const {
    if (op_.inputs_aligned) {
      CopyAsync16(at, row + (col < op_.width ? col : 0), col < op_.width);
    } else {
      StoreInputs(op_.width, at, row, col);
    }
  }
  const Op& op_;
  uint32_t stages_;
  const BF16* rows_[S::kCols / 8];
};

// One warp's 16 weight rows over units begin to end - 1. Two groups of kAhead units are under way
// while another is multiplied.
template <typename Lane, typename Op, typename S>
__device__ inline void MultiplyFew(const FewInputs<Op, S>& inputs, const char* units, int begin,
                                   int end, float (&acc)[S::kCols / 2]) {
  constexpr int kAhead = Lane::kAhead;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Lane ring[2][kAhead];
  const char* next = units + static_cast<int64_t>(begin) * Lane::kUnitBytes;
  int loaded = begin;  // units that have been asked for
  const auto load = [&](Lane(&group)[kAhead]) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      group[u].Load(next + u * Lane::kUnitBytes, lane, loaded + u < end);
    }
    loaded += kAhead;
    next += kAhead * Lane::kUnitBytes;
  };
  const auto multiply = [&](int unit, uint32_t stage, auto whole) {
#pragma unroll
    for (int g = 0; g < kFewUnits / kAhead; ++g) {
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        const int at = g * kAhead + u;
        // A branch for each unit would keep the compiler from mixing them.
        if (!whole.value && unit + at >= end) continue;
        uint32_t a[kUnitSteps][4];
        ring[g % 2][u].Unpack(a);
        MultiplyUnit<S::kCols>(a, stage + at * 8 * kCoreBytes, lane, acc);
      }
      load(ring[g % 2]);
    }
  };
  load(ring[0]);
  load(ring[1]);
  AwaitKernelBefore();  // weights are nobody's output
  __syncthreads();      // the stages are free
  for (int i = 0; i < S::kStages - 1; ++i) inputs.Issue(i, begin + i * kFewUnits, end);
  int chunk = 0;
  for (int unit = begin; unit < end; unit += kFewUnits, ++chunk) {
    WaitCopies<S::kStages - 2>();
    __syncthreads();
    const int ahead = chunk + S::kStages - 1;
    inputs.Issue(ahead, begin + ahead * kFewUnits, end);
    const uint32_t stage = inputs.StageAt(chunk);
    if (unit + kFewUnits <= end) {
      multiply(unit, stage, std::true_type());
    } else {
      multiply(unit, stage, std::false_type());
    }
  }
}

// Ranks first to last - 1 of one warp's slab, their sums added in order.
template <typename Op, typename S>
__device__ inline void MultiplyRanks(const Op& op, const typename Op::Item& item, uint32_t stages,
                                     int units, int ranks, int first, int last,
                                     float (&sums)[S::kCols / 2]) {
  const Slab slab = op.SlabAt(item, static_cast<int>(threadIdx.x) / kWarp);
  const FewInputs<Op, S> inputs(op, item, stages);
  const auto* units_at = static_cast<const char*>(slab.data);
  for (int rank = first; rank < last; ++rank) {
    const int begin = SplitBegin(units, rank, ranks), end = SplitBegin(units, rank + 1, ranks);
    float acc[S::kCols / 2] = {};
    if (op.FormatOf(item) == WeightFormat::kFp4) {
      MultiplyFew<Fp4Lane>(inputs, units_at, begin, end, acc);
    } else {
      MultiplyFew<Fp8Lane>(inputs, units_at, begin, end, acc);
    }
#pragma unroll
    for (int i = 0; i < S::kCols / 2; ++i) {
      sums[i] = !Op::kSplits || rank == first ? acc[i] : sums[i] + acc[i];
    }
  }
}

// Each block of a cluster has one rank; a cluster of one has all of them.
template <typename Op, typename S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    FewKernel(const __grid_constant__ Op op, int units, int ranks, int cluster) {
  extern __shared__ __align__(128) unsigned char shared[];
  LetNextKernelStart();
  auto* spread = reinterpret_cast<float*>(shared + kFewBytes<S> - S::kCols * kSumPitch * 4);
  const int rank = static_cast<int>(blockIdx.x) % cluster;
  const int64_t block = blockIdx.x / cluster, blocks = gridDim.x / cluster;
  const int64_t tiles = op.Tiles();
  for (int64_t round = 0;; ++round) {
    const int64_t tile = TileOf(round, block, blocks);
    if (tile >= tiles) break;
    const typename Op::Item item = op.Locate(tile);
    float sums[1][S::kCols / 2];
    MultiplyRanks<Op, S>(op, item, SharedAddress(shared), units, ranks, rank,
                         cluster > 1 ? rank + 1 : ranks, sums[0]);
    StoreTile<Op, S>(op, item, sums, kUnitsFactor, spread, rank, cluster);
  }
}

}  // namespace thalweg::kernels::cuda
