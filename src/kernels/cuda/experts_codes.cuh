// Routed and shared experts of many rows by products of codes (product_codes.cuh). GateUp leaves
// what it quantises as the codes that Down reads.
#pragma once

#include "kernels/cuda/experts_op.cuh"
#include "kernels/cuda/launch_codes.cuh"
#include "kernels/cuda/pack_inputs.cuh"

namespace thalweg::kernels::cuda {

// Where the input rows of a tile are, `width` values each.
__device__ inline uint8_t* CodedTile(uint8_t* codes, const ExpertTile& tile, int64_t width) {
  return codes + tile.group * ((width + kUnitCols - 1) / kUnitCols) * kInputUnitBytes;
}

// The tiles of one kernel: a call of many rows has its shared expert's, which come first in the
// list, in a kernel of their own.
struct TileSpan {
  int64_t first = 0, end = -1;  // -1: to the end of the list
  // The first tiles of a kernel take twice as long as the others: blocks get ranges of tiles of
  // equal weight. 0: tiles in turn.
  int64_t heavy = 0;
  __device__ int64_t InRange(int64_t round, int64_t tiles, int64_t block, int64_t blocks) const {
    const int64_t all = tiles + heavy;
    const int64_t tile = At(all * block / blocks) + round;
    return tile < At(all * (block + 1) / blocks) ? tile : tiles;
  }
  __device__ int64_t At(int64_t weight) const {
    return weight < 2 * heavy ? (weight + 1) / 2 : weight - heavy;
  }
  __device__ int64_t Count(int64_t all) const { return (end < 0 ? all : end) - first; }
};

struct CodedGateUp : GateUpOp {
  TileSpan span;
  uint8_t* inputs = nullptr;  // of x, tile by tile
  uint8_t* codes = nullptr;   // of h

  __device__ int64_t Tiles() const { return span.Count(*lists.tiles_n) * weight_tiles; }
  __device__ Item Locate(int64_t tile) const {
    return {lists.tiles[span.first + tile / weight_tiles], tile % weight_tiles * tile_slabs};
  }
  __device__ uint8_t* Packed(const Item& item) const { return CodedTile(inputs, item.tile, width); }
  template <typename Sums>
  __device__ void Store(const Item& item, int quad, int n, const Column& column,
                        const Sums& sums) const {
    if (n >= item.tile.count) return;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int64_t c = (item.slab / 4 + quad) * kWarp + lane;
    const float value = Activated(sums(lane), sums(kWarp + lane), column.weight);
    const Coded coded = QuantiseLane(RowFormat::kFp8E8M0, c < inner ? value : 0.0f);
    if (c >= inner) return;
    const int64_t chunk = c / kUnitCols * ((item.tile.count + 7) / 8) + n / 8;
    uint8_t* to = CodedTile(codes, item.tile, inner) + chunk * kInputUnitBytes;
    const int piece = static_cast<int>(c % kUnitCols) / 8;
    to[CodesAt(n % 8, piece) + c % 8] = static_cast<uint8_t>(coded.code);
    if (lane != 0) return;
    *reinterpret_cast<float*>(to + InputScaleAt(n % 8, piece)) = FromE8M0(coded.scale);
    // Scales are read two columns at a time.
    if (n % 2 == 0 && n + 1 == item.tile.count) {
      *reinterpret_cast<float*>(to + InputScaleAt(n % 8 + 1, piece)) = 0;
    }
  }
};

struct CodedDown : DownOp {
  TileSpan span;
  uint8_t* codes = nullptr;
  __device__ int64_t Tiles() const { return span.Count(*lists.tiles_n) * weight_tiles; }
  __device__ Item Locate(int64_t tile) const {
    return {lists.tiles[span.first + tile / weight_tiles], tile % weight_tiles * tile_slabs};
  }
  __device__ uint8_t* Packed(const Item& item) const { return CodedTile(codes, item.tile, width); }
};

// Shapes of the shared expert in a call of many rows, and from how many on.
using SharedShape = DenseShape<2, 4, 2, 1>;
inline constexpr int64_t kSharedRows = 256;

inline bool SharedStandsApart(const ExpertsParams& p) {
  return p.rows >= kSharedRows && p.shared.w1.format == WeightFormat::kFp8 &&
         p.shared.w3.format == WeightFormat::kFp8 && p.shared.w2.format == WeightFormat::kFp8;
}

// Runs gate/up or down over all tiles of the list. values: of the op, from weight rows.
template <typename S, typename Op>
void LaunchExperts(Queue* queue, Op op, int64_t tiles, int64_t shared, int64_t values,
                   int64_t row_values, int64_t rows) {
  op.span.first = shared;
  op.tile_slabs = S::kSlabs;
  op.weight_tiles = base::CeilDiv(values, S::kRows / row_values);
  // Few rows of many experts: those of the shared one are read at once, in twice as many bytes.
  if (shared == 0 && S::kCols <= 32) {
    op.span.heavy = base::CeilDiv(rows, int64_t{S::kCols}) * op.weight_tiles;
  }
  LaunchCodes<S>(queue, op, tiles * op.weight_tiles, 1);
  if (shared == 0) return;
  op.span = {0, shared, 0};
  op.tile_slabs = SharedShape::kSlabs;
  op.weight_tiles = base::CeilDiv(values, SharedShape::kRows / row_values);
  LaunchDense<SharedShape>(queue, op, shared * op.weight_tiles, 1);
}

template <typename S>
void RunCodes(Queue* queue, const ExpertsParams& p) {
  const auto experts = static_cast<int64_t>(p.experts.size());
  const bool apart = SharedStandsApart(p);
  const int64_t shared = apart ? base::CeilDiv(p.rows, int64_t{SharedShape::kCols}) : 0;
  const int64_t tiles = MostExpertTiles(p.rows, p.topk, experts, S::kCols);
  const int64_t groups = MostExpertGroups(p.rows, p.topk, experts);
  // A row of codes takes up to 9/8 of its bf16 values (of 32 columns, otherwise less).
  const int64_t places = groups * 9;
  ExpertsScratch scratch;
  const FeedForward* table = ExpertTable(queue, p);
  if (!TakeScratch(queue, p, places, shared + tiles, &scratch)) return;
  ListExperts(queue, p.chosen, p.rows, p.topk, experts, S::kCols, scratch.lists,
              apart ? SharedShape::kCols : 0);
  const ExpertsOp common{scratch.lists, table, static_cast<int>(experts), static_cast<int>(p.topk),
                         static_cast<int>(p.rows * p.topk)};

  CodedGateUp first{{common}, {}};
  first.inner = p.inner;
  first.x = p.x;
  first.weights = p.weights;
  first.inputs = reinterpret_cast<uint8_t*>(scratch.y);  // Down writes y when nothing reads these
  first.codes = reinterpret_cast<uint8_t*>(scratch.h);
  first.limit = p.swiglu_limit;
  first.width = p.hidden;
  first.inputs_aligned = CopiesInPieces(p.x, p.hidden, p.hidden);
  if (p.inner % kUnitCols != 0) {  // columns behind the last are zeros
    queue->Note(cudaMemsetAsync(scratch.h, 0,
                                static_cast<size_t>(groups * UnitsOf(p.inner) * kInputUnitBytes),
                                queue->stream()));
  }
  EncodeInputs(queue, first, shared + tiles, true, S::kCols > 32 ? S::kCols / 16 : 1);
  LaunchExperts<S>(queue, first, tiles, shared, p.inner, 2, p.rows);

  CodedDown second{{common}, {}};
  second.hidden = p.hidden;
  second.codes = first.codes;
  second.y = scratch.y;
  second.width = p.inner;
  LaunchExperts<S>(queue, second, tiles, shared, p.hidden, 1, p.rows);

  queue->held().combine = {scratch.y, p.rows, p.topk, p.hidden, p.out};
}

}  // namespace thalweg::kernels::cuda
