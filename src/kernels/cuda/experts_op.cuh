// Routed and shared experts (model.md 2.6): one launch for gate, up and SwiGLU of all of them, one
// for down, one that adds up each row. A tile of the first has 32 gate and 32 up rows for the same
// 32 values between, which are one group of the quantiser.
#pragma once

#include <algorithm>

#include "kernels/cuda/experts.h"
#include "kernels/cuda/product_launch.cuh"
#include "kernels/cuda/row_jobs.h"

namespace thalweg::kernels::cuda {

struct ExpertItem {
  ExpertTile tile;
  int64_t slab = 0;
};

// What gate/up and down share.
struct ExpertsOp {
  using Item = ExpertItem;
  ExpertLists lists;
  const FeedForward* experts = nullptr;
  int experts_n = 0, topk = 0, slots = 0;
  int64_t weight_tiles = 0, tile_slabs = 0;
  int64_t width = 0;
  bool inputs_aligned = false;
  BF16* packed = nullptr;  // input rows of the tiles (PackInputsKernel), for wide tiles

  static constexpr bool kSplits = false, kStartsEarly = true, kLeadsEarly = false;
  __device__ int64_t Tiles() const { return *lists.tiles_n * weight_tiles; }
  __device__ int Columns(const Item& item) const { return item.tile.count; }
  __device__ Item Locate(int64_t tile) const {
    return {lists.tiles[tile / weight_tiles], tile % weight_tiles * tile_slabs};
  }
  __device__ int64_t InputTiles() const { return *lists.tiles_n; }
  __device__ Item InputItem(int64_t i) const { return {lists.tiles[i], 0}; }
  __device__ BF16* Packed(const Item& item) const { return packed + item.tile.group * 8 * width; }
  __device__ int SlotAt(const Item& item, int n) const { return lists.slots[item.tile.first + n]; }
  struct Column {
    int slot = 0;
    float weight = 0;
  };
  __device__ int RowOf(int slot) const { return slot < slots ? slot / topk : slot - slots; }
};

struct GateUpOp : ExpertsOp {
  static constexpr bool kWeightsKnown = false;  // the kernel before makes the lists
  int64_t inner = 0;
  const BF16* x = nullptr;         // [rows, hidden]
  const float* weights = nullptr;  // [rows, topk]
  BF16* h = nullptr;               // [slots, inner], or as Down reads its input
  bool packs = false;
  float limit = 0;
  RowFormat quantise = RowFormat::kBF16;

  static constexpr int kColumnLanes = 8;  // of four values each

  // That of w3 too.
  __device__ WeightFormat FormatOf(const Item& item) const {
    return experts[item.tile.expert].w1.format;
  }
  // Slabs 4q and 4q + 1 are gate rows, the next two the up rows of the same values.
  __device__ Slab SlabAt(const Item& item, int slab) const {
    const FeedForward& expert = experts[item.tile.expert];
    const int64_t at = (item.slab + slab / 4 * 4) / 2 + slab % 2;
    return SlabOf(slab % 4 < 2 ? expert.w1 : expert.w3, min(at, (inner - 1) / kUnitRows));
  }
  __device__ const BF16* InputRow(const Item& item, int n) const {
    return n < item.tile.count ? x + RowOf(SlotAt(item, n)) * width : nullptr;
  }
  __device__ Column ColumnAt(const Item& item, int n) const {
    if (n >= item.tile.count) return {};
    const int slot = SlotAt(item, n);
    return {slot, slot < slots ? weights[slot] : 1.0f};
  }
  template <typename Sums>
  __device__ void Store(const Item& item, int quad, int n, const Column& column,
                        const Sums& sums) const {
    if (n >= item.tile.count) return;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int64_t c = (item.slab / 4 + quad) * kWarp + lane;
    const float value = Activated(sums(lane), sums(kWarp + lane), column.weight);
    const BF16 out = Narrow(QuantiseLane(quantise, c < inner ? value : 0.0f).value);
    if (c < inner) h[packs ? PackedAt(item.tile, n, c) : column.slot * inner + c] = out;
  }
  __device__ float Activated(float gate_sum, float up_sum, float weight) const {
    const float gate = fminf(RoundToBF16(gate_sum), limit);
    const float up = fminf(fmaxf(RoundToBF16(up_sum), -limit), limit);
    return RoundToBF16(gate * SigmoidOf(gate) * up * weight);
  }
  // Four neighbouring values of a column, of which eight lanes have 32, and the scale of this
  // lane's group. values[i] is zero behind the last.
  __device__ uint8_t ActivatedFour(const Item& item, int quad, const Column& column,
                                   const float* sums, RowFormat format, int64_t* c,
                                   float (&values)[4]) const {
    const int at = static_cast<int>(threadIdx.x) % kColumnLanes * 4;
    *c = (item.slab / 4 + quad) * kWarp + at;
    const float4 gate = *reinterpret_cast<const float4*>(sums + at);
    const float4 up = *reinterpret_cast<const float4*>(sums + kWarp + at);
    const float gates[4] = {gate.x, gate.y, gate.z, gate.w}, ups[4] = {up.x, up.y, up.z, up.w};
    float largest = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[i] = *c + i < inner ? Activated(gates[i], ups[i], column.weight) : 0.0f;
      largest = fmaxf(largest, fabsf(values[i]));
    }
    for (int step = format == RowFormat::kFp4E4M3 ? 2 : 4; step > 0; step /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
    }
    return ScaleCode(format, largest);
  }
  __device__ void StoreFour(const Item& item, int quad, int n, const Column& column,
                            const float* sums) const {
    if (quantise == RowFormat::kFp8E8M0) {
      return StoreFourAs(RowFormat::kFp8E8M0, item, quad, n, column, sums);
    }
    StoreFourAs(quantise, item, quad, n, column, sums);
  }
  __device__ void StoreFourAs(RowFormat format, const Item& item, int quad, int n,
                              const Column& column, const float* sums) const {
    float values[4];
    int64_t c;
    const uint8_t scale = ActivatedFour(item, quad, column, sums, format, &c, values);
    if (n >= item.tile.count) return;
    float4 out;
    out.x = CodeValue(format, scale, values[0]).value;
    out.y = CodeValue(format, scale, values[1]).value;
    out.z = CodeValue(format, scale, values[2]).value;
    out.w = CodeValue(format, scale, values[3]).value;
    if (!packs) return StoreFourRounded(c, inner, out, h + column.slot * inner);
    // Four of eight neighbours.
    if (c < inner) StoreFourRounded(0, 4, out, h + PackedAt(item.tile, n, c));
  }
  __device__ int64_t PackedAt(const ExpertTile& tile, int n, int64_t c) const {
    const int64_t group = c / kUnitCols * ((tile.count + 7) / 8) + n / 8;
    return tile.group * 8 * inner + group * 8 * kUnitCols + c % kUnitCols / 8 * 64 + n % 8 * 8 +
           c % 8;
  }
};

struct DownOp : ExpertsOp {
  static constexpr bool kWeightsKnown = true;  // the lists are there when GateUp starts
  static constexpr int kColumnLanes = 16;
  int64_t hidden = 0;
  const BF16* h = nullptr;  // [slots, inner]
  BF16* y = nullptr;        // [slots, hidden]

  __device__ WeightFormat FormatOf(const Item& item) const {
    return experts[item.tile.expert].w2.format;
  }
  __device__ Slab SlabAt(const Item& item, int slab) const {
    return SlabOf(experts[item.tile.expert].w2, min(item.slab + slab, (hidden - 1) / kUnitRows));
  }
  __device__ const BF16* InputRow(const Item& item, int n) const {
    return n < item.tile.count ? h + SlotAt(item, n) * width : nullptr;
  }
  __device__ Column ColumnAt(const Item& item, int n) const {
    return {n < item.tile.count ? SlotAt(item, n) : 0, 0};
  }
  template <typename Sums>
  __device__ void Store(const Item& item, int quad, int n, const Column& column,
                        const Sums& sums) const {
    if (n >= item.tile.count) return;
    StoreRounded(item.slab * kUnitRows + quad * 64, hidden, sums,
                 y + static_cast<int64_t>(column.slot) * hidden);
  }
  __device__ void StoreFour(const Item& item, int quad, int n, const Column& column,
                            const float* sums) const {
    if (n >= item.tile.count) return;
    const int at = static_cast<int>(threadIdx.x) % kColumnLanes * 4;
    StoreFourRounded(item.slab * kUnitRows + quad * 64 + at, hidden,
                     *reinterpret_cast<const float4*>(sums + at),
                     y + static_cast<int64_t>(column.slot) * hidden);
  }
};

// Scratch of a pass.
struct ExpertsScratch {
  ExpertLists lists;
  BF16* h = nullptr;
  BF16* y = nullptr;
};

// places: rows of h and of y.
inline bool TakeScratch(Queue* queue, const ExpertsParams& p, int64_t places, int64_t tiles,
                        ExpertsScratch* out) {
  constexpr int64_t kAlign = 256;
  const int64_t slots = p.rows * (p.topk + 1);
  const int64_t sizes[] = {places * p.inner * 2, places * p.hidden * 2, slots * 4,
                           tiles * int64_t{sizeof(ExpertTile)}, 4};
  int64_t bytes = 0;
  for (const int64_t size : sizes) bytes += base::RoundUp(size, kAlign);
  auto* next = static_cast<char*>(queue->Scratch(bytes));
  if (next == nullptr) return false;
  const auto take = [&](int i) {
    char* at = next;
    next += base::RoundUp(sizes[i], kAlign);
    return at;
  };
  out->h = reinterpret_cast<BF16*>(take(0));
  out->y = reinterpret_cast<BF16*>(take(1));
  out->lists.slots = reinterpret_cast<int32_t*>(take(2));
  out->lists.tiles = reinterpret_cast<ExpertTile*>(take(3));
  out->lists.tiles_n = reinterpret_cast<int32_t*>(take(4));
  return true;
}

template <typename S, Operand kOperand>
void RunPass(Queue* queue, const ExpertsParams& p) {
  const auto experts = static_cast<int64_t>(p.experts.size());
  const int64_t tiles = MostExpertTiles(p.rows, p.topk, experts, S::kCols);
  const int64_t places =
      kIsWide<S> ? MostExpertGroups(p.rows, p.topk, experts) * 8 : p.rows * (p.topk + 1);
  ExpertsScratch scratch;
  const FeedForward* table = ExpertTable(queue, p);
  if (!TakeScratch(queue, p, places, tiles, &scratch)) return;
  ListExperts(queue, p.chosen, p.rows, p.topk, experts, S::kCols, scratch.lists);
  ExpertsOp common{scratch.lists, table, static_cast<int>(experts), static_cast<int>(p.topk),
                   static_cast<int>(p.rows * p.topk)};
  common.tile_slabs = S::kSlabs;

  GateUpOp first{common};
  first.inner = p.inner;
  first.x = p.x;
  first.weights = p.weights;
  first.h = scratch.h;
  first.packs = kIsWide<S>;
  first.packed = scratch.y;  // Down writes y when nothing reads this any more
  first.limit = p.swiglu_limit;
  first.quantise = p.quantise;
  first.width = p.hidden;
  first.inputs_aligned = CopiesInPieces(p.x, p.hidden, p.hidden);
  first.weight_tiles = base::CeilDiv(p.inner, int64_t{S::kRows} / 2);
  if constexpr (kIsWide<S>) PackInputs(queue, first, tiles, true);
  LaunchProduct<S, kOperand>(queue, first, tiles * first.weight_tiles, 1);

  DownOp second{common};
  second.hidden = p.hidden;
  second.h = scratch.h;
  second.packed = scratch.h;
  second.y = scratch.y;
  second.width = p.inner;
  second.inputs_aligned = CopiesInPieces(scratch.h, p.inner, p.inner);
  second.weight_tiles = base::CeilDiv(p.hidden, int64_t{S::kRows});
  LaunchProduct<S, kOperand>(queue, second, tiles * second.weight_tiles, 1);

  queue->held().combine = {scratch.y, p.rows, p.topk, p.hidden, p.out};
}

}  // namespace thalweg::kernels::cuda
