// Experts of calls of up to eight rows, by matrix instructions of e4m3 (codes.cuh). A warpgroup has
// 64 weight rows of an expert and all of K. Each of its warps brings sixteen of them by bulk copies
// through a ring of its own, and goes on to the next tile without waiting for anybody. Warpgroups
// have tiles in a row, mostly of one expert.
//
// Gate and up see all rows of the call as the eight columns of every tile, whichever of them chose
// the expert: the rows become codes once in each block. Down sees the columns that GateUp left for
// the tile's expert.
#pragma once

#include "kernels/cuda/experts_codes.cuh"
#include "kernels/cuda/multiply_slot.cuh"
#include "kernels/cuda/warp_ring.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kMostCallRows = 8;
inline constexpr int kCallGroups = 4, kCallThreads = kCallGroups * 128;
inline constexpr int kCallStages = 4;
inline constexpr int kCallSumBytes = 8 * kSumPitch * 4;  // of a warpgroup

inline constexpr int kSlotFp4Units = 4, kSlotFp8Units = 2;

// kOne: all tiles have the same inputs.
template <typename Op>
struct CallLayout {
  using Ring = WarpRing<Op, kSlotFp4Units, kSlotFp8Units>;
  static constexpr int kRingBytes = kCallStages * Ring::kSlotBytes;
  static constexpr int kRingBarriers = kCallStages * kBarrierBytes;
  static constexpr int kSumsAt = kCallGroups * 4 * kRingBytes;
  static constexpr int kBarriersAt = kSumsAt + kCallGroups * kCallSumBytes;
  static constexpr int kInputsAt = kBarriersAt + kCallGroups * 4 * kRingBarriers;
  static_assert(kInputsAt % 16 == 0);
  __host__ __device__ static int InputBytes(int units) { return units * kInputUnitBytes; }
  __host__ __device__ static int Bytes(int units) {
    return kInputsAt + (Op::kOne ? 1 : kCallGroups) * InputBytes(units);
  }
};

// GateUp of such a call.
struct CallGateUp : CodedGateUp {
  static constexpr bool kOne = true;
  int rows = 0;
  __device__ const BF16* CallRow(int n) const { return x + n * width; }
  __device__ int SumColumn(int, const Column& column) const { return RowOf(column.slot); }
};

struct CallDown : CodedDown {
  static constexpr bool kOne = false;
  __device__ int SumColumn(int n, const Column&) const { return n; }
};

// The tiles of one worker of `workers`: a tile of the shared expert, whose weights are fp8, counts
// as two.
struct TileRange {
  int next = 0, end = 0;
  template <typename Op>
  __device__ TileRange(const Op& op, int worker, int workers) {
    const int tiles = static_cast<int>(op.Tiles());
    const int large = min(static_cast<int>(op.weight_tiles), tiles);
    if (tiles <= workers) {
      next = min(worker, tiles);
      end = min(worker + 1, tiles);
      return;
    }
    const int64_t all = tiles + large;
    next = TileFrom(static_cast<int>(all * worker / workers), large);
    end = TileFrom(static_cast<int>(all * (worker + 1) / workers), large);
  }
  __device__ static int TileFrom(int at, int large) {
    return at < 2 * large ? (at + 1) / 2 : at - large;
  }
};

template <typename Op>
class CallWarp {
 public:
  using L = CallLayout<Op>;
  __device__ CallWarp(const Op& op, int units, unsigned char* memory)
      : op_(op),
        units_(units),
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        sums_(reinterpret_cast<float*>(memory + L::kSumsAt + warp_ / 4 * kCallSumBytes)),
        inputs_(SharedAddress(memory) + L::kInputsAt +
                (Op::kOne ? 0 : warp_ / 4 * L::InputBytes(units))),
        ring_(op, kCallStages, SharedAddress(memory) + warp_ * L::kRingBytes,
              SharedAddress(memory) + L::kBarriersAt + warp_ * L::kRingBarriers) {}

  __device__ void Open() const {
    ring_.Init();
    PublishShared();
    __syncthreads();
  }
  // What lists and tables say is there.
  __device__ void Start() {
    const int blocks = static_cast<int>(gridDim.x);
    const TileRange tiles(op_, static_cast<int>(blockIdx.x) + blocks * (warp_ / 4),
                          blocks * kCallGroups);
    next_ = tiles.next;
    end_ = tiles.end;
    ring_.Start(next_, end_, 1, warp_ % 4, 0, units_);
  }
  // The rows of the call as codes, by the block.
  __device__ void EncodeCall(unsigned char* memory) const {
    EncodeRows<kCallThreads>(
        op_.rows, units_, [&](int n) { return op_.CallRow(n); }, memory + L::kInputsAt);
    PublishShared();
    __syncthreads();
  }

  __device__ void Run() {
#pragma unroll 1
    for (; next_ < end_; ++next_) {
      const typename Op::Item item = op_.Locate(next_);
      if constexpr (!Op::kOne) Inputs(item);
      float acc[4] = {};
      if (op_.FormatOf(item) == WeightFormat::kFp4) {
        Multiply<Fp4Codes, kSlotFp4Units>(acc);
      } else {
        Multiply<Fp8Codes, kSlotFp8Units>(acc);
      }
      Store(item, acc);
    }
  }

 private:
  // The columns of a tile, unless they are there. All warps of the group are done with the last.
  __device__ void Inputs(const typename Op::Item& item) {
    const uint8_t* from = op_.Packed(item);
    if (from == inputs_of_) return;
    inputs_of_ = from;
    // Not as a bulk copy, which would queue behind those of weights. Columns behind the last, which
    // nobody has written, are zeros.
    for (int i = static_cast<int>(threadIdx.x) % 128; i < L::InputBytes(units_) / 16; i += 128) {
      const int piece = i % (kInputUnitBytes / 16), scales = piece - kCodesBytes / 16;
      const int column = scales < 0 ? piece % 8 : 2 * scales;
      CopyAsync16(inputs_ + i * 16, from + i * 16, column < item.tile.count);
    }
    CommitCopies();
    WaitCopies<0>();
    PublishShared();
    SyncGroup();
  }

  template <typename Codes, int kUnits>
  __device__ void Multiply(float (&acc)[4]) {
#pragma unroll 1
    for (int unit = 0; unit < units_; unit += kUnits) {
      MultiplySlot<Codes, kUnits, 2, 2, 8>(ring_.Wait(), inputs_ + unit * kInputUnitBytes,
                                           kInputUnitBytes, acc, [&] { ring_.Release(); });
    }
  }

  __device__ void Store(const typename Op::Item& item, const float (&acc)[4]) const {
    float* mine = sums_ + lane_ % 4 * 2 * kSumPitch + warp_ % 4 * kUnitRows + lane_ / 4;
#pragma unroll
    for (int j = 0; j < 4; ++j) mine[j % 2 * kSumPitch + j / 2 * 8] = acc[j];
    SyncGroup();
#pragma unroll 1
    for (int n = warp_ % 4; n < item.tile.count; n += 4) {
      const typename Op::Column column = op_.ColumnAt(item, n);
      const float* from = sums_ + op_.SumColumn(n, column) * kSumPitch;
      op_.Store(item, 0, n, column, ClusterSums{from, 1});
    }
    SyncGroup();
  }

  const Op& op_;
  int units_, warp_, lane_;
  float* sums_;
  uint32_t inputs_;
  typename L::Ring ring_;
  int next_ = 0, end_ = 0;
  const uint8_t* inputs_of_ = nullptr;
};

template <typename Op>
__global__ void __launch_bounds__(kCallThreads, 1)
    CallKernel(const __grid_constant__ Op op, int units) {
  extern __shared__ __align__(128) unsigned char shared[];
  CallWarp<Op> warp(op, units, shared);
  warp.Open();
  if constexpr (Op::kOne) {
    AwaitKernelBefore();
    LetNextKernelStart();  // the lists are there, which it reads before it waits
    warp.Start();
    warp.EncodeCall(shared);
  } else {
    LetNextKernelStart();
    warp.Start();
    AwaitKernelBefore();
  }
  warp.Run();
}

template <typename Op>
void LaunchCall(Queue* queue, const Op& op) {
  const int units = UnitsOf(op.width), bytes = CallLayout<Op>::Bytes(units);
  const auto kernel = CallKernel<Op>;
  AllowShared(queue, kernel, bytes);
  LaunchAs(queue, kernel, dim3(Count(MultiprocessorCount())), kCallThreads, bytes, {1, true}, op,
           units);
}

// Whether K has whole slots of weights, and rows are what quantisers leave.
inline bool WholeSlots(const ExpertsParams& p) {
  constexpr int64_t kSlotCols = int64_t{kUnitCols} * kSlotFp4Units;
  return p.hidden % kSlotCols == 0 && p.inner % kSlotCols == 0 &&
         CopiesInPieces(p.x, p.hidden, p.hidden) && p.quantise == RowFormat::kFp8E8M0 &&
         HasWarpgroups();
}

// Whether RunCall can run the experts of a call; all weights are packed as codes.
inline bool CallTakes(const ExpertsParams& p) {
  constexpr int kWhole = 227 << 10;
  return WholeSlots(p) && p.rows <= kMostCallRows &&
         CallLayout<CallGateUp>::Bytes(UnitsOf(p.hidden)) <= kWhole &&
         CallLayout<CallDown>::Bytes(UnitsOf(p.inner)) <= kWhole;
}

inline void RunCall(Queue* queue, const ExpertsParams& p) {
  const auto experts = static_cast<int64_t>(p.experts.size());
  const int64_t tiles = MostExpertTiles(p.rows, p.topk, experts, kMostCallRows);
  const int64_t code_bytes =
      MostExpertGroups(p.rows, p.topk, experts) * UnitsOf(p.inner) * kInputUnitBytes;
  ExpertsScratch scratch;
  const FeedForward* table = ExpertTable(queue, p);
  if (!TakeScratch(queue, p, base::CeilDiv(code_bytes, p.inner * 2), tiles, &scratch)) return;
  ListExperts(queue, p.chosen, p.rows, p.topk, experts, kMostCallRows, scratch.lists);
  ExpertsOp common{scratch.lists, table, static_cast<int>(experts), static_cast<int>(p.topk),
                   static_cast<int>(p.rows * p.topk)};
  common.tile_slabs = 4;
  auto* codes = reinterpret_cast<uint8_t*>(scratch.h);

  CallGateUp first;
  static_cast<ExpertsOp&>(first) = common;
  first.inner = p.inner;
  first.x = p.x;
  first.weights = p.weights;
  first.limit = p.swiglu_limit;
  first.width = p.hidden;
  first.weight_tiles = base::CeilDiv(p.inner, int64_t{32});
  first.rows = static_cast<int>(p.rows);
  first.codes = codes;
  LaunchCall(queue, first);

  CallDown second;
  static_cast<ExpertsOp&>(second) = common;
  second.hidden = p.hidden;
  second.y = scratch.y;
  second.width = p.inner;
  second.weight_tiles = base::CeilDiv(p.hidden, int64_t{64});
  second.codes = codes;
  LaunchCall(queue, second);

  queue->held().combine = {scratch.y, p.rows, p.topk, p.hidden, p.out};
}

}  // namespace thalweg::kernels::cuda
