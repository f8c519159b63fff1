// Routed and shared experts (model.md 2.6): one launch for gate, up and SwiGLU of all of them, one
// for down, one that adds up each row. A tile of the first has 32 gate and 32 up rows for the same
// 32 values between, which are one group of the quantiser.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/experts.h"
#include "kernels/cuda/product_launch.cuh"

namespace thalweg::kernels::cuda {
namespace {

using MiddleUnits = Shape<2, 1, 64, 1, 4, 2>;
using BroadUnits = Shape<2, 1, 96, 1, 4, 2>;
using WideUnits = Shape<2, 1, 128, 1, 3, 2>;

// Rows of one pass: bounds the scratch, (topk + 1) * (inner + hidden) bf16 values a row.
constexpr int64_t kPassRows = 4096;

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

  static constexpr bool kSplits = false;
  // w1, w2 and w3 of an expert have one format (CheckOperands).
  __device__ WeightFormat FormatOf(const Item& item) const {
    return experts[item.tile.expert].w1.format;
  }
  __device__ int64_t Tiles() const { return *lists.tiles_n * weight_tiles; }
  __device__ Item Locate(int64_t tile) const {
    return {lists.tiles[tile / weight_tiles], tile % weight_tiles * tile_slabs};
  }
  __device__ int SlotAt(const Item& item, int n) const { return lists.slots[item.tile.first + n]; }
  __device__ int RowOf(int slot) const { return slot < slots ? slot / topk : slot - slots; }
};

struct GateUpOp : ExpertsOp {
  int64_t inner = 0;
  const BF16* x = nullptr;         // [rows, hidden]
  const float* weights = nullptr;  // [rows, topk]
  BF16* h = nullptr;               // [slots, inner]
  float limit = 0;
  RowFormat quantise = RowFormat::kBF16;

  // Slabs 4q and 4q + 1 are gate rows, the next two the up rows of the same values.
  __device__ Slab SlabAt(const Item& item, int slab) const {
    const FeedForward& expert = experts[item.tile.expert];
    const int64_t at = (item.slab + slab / 4 * 4) / 2 + slab % 2;
    return SlabOf(slab % 4 < 2 ? expert.w1 : expert.w3, min(at, (inner - 1) / kUnitRows));
  }
  __device__ const BF16* InputRow(const Item& item, int n) const {
    return n < item.tile.count ? x + RowOf(SlotAt(item, n)) * width : nullptr;
  }
  template <typename Sums>
  __device__ void Store(const Item& item, int quad, int n, const Sums& sums) const {
    if (n >= item.tile.count) return;
    const int slot = SlotAt(item, n);
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int64_t c = (item.slab / 4 + quad) * kWarp + lane;
    const float gate = fminf(RoundToBF16(sums(lane)), limit);
    const float up = fminf(fmaxf(RoundToBF16(sums(kWarp + lane)), -limit), limit);
    const float weight = slot < slots ? weights[slot] : 1.0f;
    const float value = RoundToBF16(gate * SigmoidOf(gate) * up * weight);
    const BF16 out = Narrow(QuantiseLane(quantise, c < inner ? value : 0.0f).value);
    if (c < inner) h[slot * inner + c] = out;
  }
};

struct DownOp : ExpertsOp {
  int64_t hidden = 0;
  const BF16* h = nullptr;  // [slots, inner]
  BF16* y = nullptr;        // [slots, hidden]

  __device__ Slab SlabAt(const Item& item, int slab) const {
    return SlabOf(experts[item.tile.expert].w2, min(item.slab + slab, (hidden - 1) / kUnitRows));
  }
  __device__ const BF16* InputRow(const Item& item, int n) const {
    return n < item.tile.count ? h + SlotAt(item, n) * width : nullptr;
  }
  template <typename Sums>
  __device__ void Store(const Item& item, int quad, int n, const Sums& sums) const {
    if (n >= item.tile.count) return;
    const int64_t slot = SlotAt(item, n);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = half * kWarp + static_cast<int>(threadIdx.x) % kWarp;
      const int64_t o = item.slab * kUnitRows + quad * 64 + i;
      if (o < hidden) y[slot * hidden + o] = Narrow(sums(i));
    }
  }
};

// out = bf16(sum over the row's experts in ascending order, then the shared one).
__global__ void CombineKernel(const BF16* y, int64_t rows, int64_t topk, int64_t hidden,
                              BF16* out) {
  const int64_t row = blockIdx.y;
  const int64_t c = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= hidden) return;
  float sum = 0;
  for (int64_t i = 0; i < topk; ++i) sum += Wide(y[(row * topk + i) * hidden + c]);
  out[row * hidden + c] = Narrow(sum + Wide(y[(rows * topk + row) * hidden + c]));
}

// Scratch of a pass.
struct ExpertsScratch {
  ExpertLists lists;
  BF16* h = nullptr;
  BF16* y = nullptr;
};

bool TakeScratch(Queue* queue, const ExpertsParams& p, int64_t rows, int64_t tiles,
                 ExpertsScratch* out) {
  constexpr int64_t kAlign = 256;
  const int64_t slots = rows * (p.topk + 1);
  const int64_t sizes[] = {slots * p.inner * 2, slots * p.hidden * 2, slots * 4,
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
  ExpertsScratch scratch;
  const FeedForward* table = ExpertTable(queue, p);
  if (!TakeScratch(queue, p, p.rows, tiles, &scratch)) return;
  ListExperts(queue, p.chosen, p.rows, p.topk, experts, S::kCols, scratch.lists);
  ExpertsOp common{scratch.lists, table, static_cast<int>(experts), static_cast<int>(p.topk),
                   static_cast<int>(p.rows * p.topk)};
  common.tile_slabs = S::kSlabs;

  GateUpOp first{common};
  first.inner = p.inner;
  first.x = p.x;
  first.weights = p.weights;
  first.h = scratch.h;
  first.limit = p.swiglu_limit;
  first.quantise = p.quantise;
  first.width = p.hidden;
  first.inputs_aligned = CopiesInPieces(p.x, p.hidden, p.hidden);
  first.weight_tiles = base::CeilDiv(p.inner, int64_t{S::kRows} / 2);
  LaunchProduct<S, kOperand>(queue, first, tiles * first.weight_tiles, 1);

  DownOp second{common};
  second.hidden = p.hidden;
  second.h = scratch.h;
  second.y = scratch.y;
  second.width = p.inner;
  second.inputs_aligned = CopiesInPieces(scratch.h, p.inner, p.inner);
  second.weight_tiles = base::CeilDiv(p.hidden, int64_t{S::kRows});
  LaunchProduct<S, kOperand>(queue, second, tiles * second.weight_tiles, 1);

  const dim3 grid(Count(base::CeilDiv(p.hidden, int64_t{256})), Count(p.rows));
  CombineKernel<<<grid, 256, 0, queue->stream()>>>(scratch.y, p.rows, p.topk, p.hidden, p.out);
}

// By the rows that experts get, most of them: a wider tile than they fill is work for nothing, a
// narrower one reads weights again (from the cache, as a rule).
void ChooseExperts(Queue* queue, const ExpertsParams& p) {
  if (OperandOf(p.shared.w1) != Operand::kUnits) {
    if (p.rows <= 8) return RunPass<FewHalves, Operand::kHalves>(queue, p);
    return RunPass<ManyHalves, Operand::kHalves>(queue, p);
  }
  const double each = static_cast<double>(p.rows * p.topk) / static_cast<double>(p.experts.size());
  const double most = std::min(static_cast<double>(p.rows), each + 3 * std::sqrt(each));
  if (most <= 11) return RunPass<OneUnits, Operand::kUnits>(queue, p);
  if (most <= 17) return RunPass<TwoUnits, Operand::kUnits>(queue, p);
  if (most <= 36) return RunPass<FourUnits, Operand::kUnits>(queue, p);
  if (most <= 68) return RunPass<MiddleUnits, Operand::kUnits>(queue, p);
  if (most <= 100) return RunPass<BroadUnits, Operand::kUnits>(queue, p);
  return RunPass<WideUnits, Operand::kUnits>(queue, p);
}

// One kernel reads all weights in one way.
void CheckOperands(const ExpertsParams& p) {
  const bool packed = p.shared.w1.packed != nullptr;
  for (const FeedForward& expert : p.experts) {
    for (const Matrix* w : {&expert.w1, &expert.w3, &expert.w2}) {
      TW_CHECK((w->packed != nullptr) == packed);
      TW_CHECK(w->format != WeightFormat::kF32 && w->format == expert.w1.format);
    }
  }
}

}  // namespace

void Experts(const ExpertsParams& p) {
  if (p.rows == 0) return;
  CheckOperands(p);
  Queue& queue = QueueOf(p.stream);
  for (int64_t done = 0; done < p.rows; done += kPassRows) {
    ExpertsParams pass = p;
    pass.rows = std::min(kPassRows, p.rows - done);
    pass.x += done * p.hidden;
    pass.chosen += done * p.topk;
    pass.weights += done * p.topk;
    pass.out += done * p.hidden;
    ChooseExperts(&queue, pass);
  }
}

}  // namespace thalweg::kernels::cuda
