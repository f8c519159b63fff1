// The matrix product of processors with AMX: thirty-two outputs (one panel) of up to thirty-two
// rows, their running sums in four tile registers while the groups of the panel pass by.
//
// One instruction takes sixteen rows, sixteen outputs and a group: the products of its even columns
// are added in ascending order, those of its odd columns likewise, the two sums are added, and then
// added to the running sum; each step rounds to nearest even, denormals are zero (TDPBF16PS). The
// weights have their scale in them, which is exact: so this is total += scale * group as in
// panel.inc.h, and only the order inside a group is another one (SumOrder::kEvenAndOdd).
// Numerics::kFast runs the same way: its activations are integers times a power of two and exact in
// bf16, every sum inside a group is exact, and the bits are those of integer dots, which would
// have to be converted and scaled after every group.
//
// A row of a tile never meets another row, and every number of rows goes through here.
#pragma once

#include "kernels/cpu/scaled_lines.inc.h"
#include "kernels/cpu/tiles.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

constexpr int kTileSide = 16;  // rows, outputs, pairs
constexpr int64_t kPairBytes = kLineBytes;
constexpr int64_t kRowBytes = kPairWords * 4;
constexpr int64_t kSumBytes = kPanelOuts * 4;

// Groups that are decoded together, into a buffer that is to stay in the first cache: for several
// tiles of rows, which wait meanwhile, and for a single one, which needs no wait.
constexpr int64_t kChunkGroups = 8;
constexpr int64_t kSingleChunkGroups = 4;

// Tile registers: 0 to 3 are sums of (rows 0..15, 16..31) x (outputs 0..15, 16..31), 4 and 5 rows,
// 6 and 7 weights.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

TW_INLINE TileShapes ShapesFor(int64_t rows) {
  TileShapes shapes;
  const auto set = [&](int tile, int64_t count) {
    shapes.rows[tile] = static_cast<uint8_t>(count);
    shapes.row_bytes[tile] = count > 0 ? kRowBytes : 0;
  };
  const int64_t first = Least(rows, kTileSide), second = rows - first;
  for (const int tile : {0, 1, 4}) set(tile, first);
  for (const int tile : {2, 3, 5}) set(tile, second);
  for (const int tile : {6, 7}) set(tile, kTileSide);
  return shapes;
}

// The compiler does not see what tile instructions read.
TW_INLINE void MemoryIsWritten() { asm volatile("" ::: "memory"); }

// This thread's tile registers, in use.
class TileUnit {
 public:
  TileUnit() = default;
  TileUnit(const TileUnit&) = delete;
  TileUnit& operator=(const TileUnit&) = delete;
  ~TileUnit() {
    if (rows_ > 0) _tile_release();
  }
  void SetRows(int64_t rows) {
    if (rows == rows_) return;
    const TileShapes shapes = ShapesFor(rows);
    asm volatile("ldtilecfg %0" ::"m"(shapes));
    rows_ = rows;
  }

 private:
  int64_t rows_ = 0;
};

// One product: `groups` groups of `rows` rows with weights as scaled_lines.inc.h makes them.
struct TileWork {
  const uint32_t* x;
  int64_t rows;
  const uint8_t* weights;
  int64_t groups;
  float* sums;       // [rows, kPanelOuts]
  bool load, store;  // whether sums wait there before, and are wanted there after
};

template <bool kTwo>
TW_INLINE void ZeroSums() {
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kTwo) _tile_zero(2);
  if constexpr (kTwo) _tile_zero(3);
}

template <bool kTwo>
TW_INLINE void LoadSums(const TileWork& work) {
  MemoryIsWritten();
  _tile_loadd(0, work.sums, kSumBytes);
  _tile_loadd(1, work.sums + kTileSide, kSumBytes);
  if constexpr (kTwo) {
    float* below = work.sums + kTileSide * kPanelOuts;
    _tile_loadd(2, below, kSumBytes);
    _tile_loadd(3, below + kTileSide, kSumBytes);
  }
}

template <bool kTwo>
TW_INLINE void StoreSums(const TileWork& work) {
  _tile_stored(0, work.sums, kSumBytes);
  _tile_stored(1, work.sums + kTileSide, kSumBytes);
  if constexpr (kTwo) {
    float* below = work.sums + kTileSide * kPanelOuts;
    _tile_stored(2, below, kSumBytes);
    _tile_stored(3, below + kTileSide, kSumBytes);
  }
  MemoryIsWritten();
}

// Calls beside(g) for every group: work for the vector units while the tiles are busy.
template <bool kTwo, typename Beside>
TW_INLINE void MultiplyTiles(const TileWork& work, const Beside& beside) {
  if (work.load) LoadSums<kTwo>(work);
  for (int64_t g = 0; g < work.groups; ++g) {
    const uint32_t* x = work.x + g * work.rows * kPairWords;
    const uint8_t* weights = work.weights + g * kScaledGroupBytes;
    MemoryIsWritten();
    _tile_loadd(4, x, kRowBytes);
    _tile_loadd(6, weights, kPairBytes);
    _tile_loadd(7, weights + kHalfLineBytes, kPairBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kTwo) {
      _tile_loadd(5, x + kTileSide * kPairWords, kRowBytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    beside(g);
  }
  if (work.store) StoreSums<kTwo>(work);
}

// What chunk after chunk of one panel needs.
struct PanelWork {
  const Panel& w;
  const Tiles& x;
  int64_t first_tile, last_tile;
  float* product;

  int64_t groups() const { return x.format.Groups(); }
  bool single() const { return last_tile - first_tile == 1; }
  int64_t chunk() const { return single() ? kSingleChunkGroups : kChunkGroups; }

  // The tile's product with a chunk whose weights are ready. The sums of a single tile stay in
  // their registers from chunk to chunk.
  TileWork Of(int64_t tile, int64_t group, const uint8_t* weights) const {
    const int64_t rows = x.tiling.Rows(tile);
    return {x.Of(tile) + group * rows * kPairWords,
            rows,
            weights,
            Least(chunk(), groups() - group),
            product + (x.tiling.First(tile) - x.tiling.First(first_tile)) * kPanelOuts,
            group > 0 && !single(),
            !single() || group + chunk() >= groups()};
  }
};

template <typename Beside>
TW_INLINE void MultiplyTile(TileUnit* unit, const TileWork& work, bool first,
                            const Beside& beside) {
  unit->SetRows(work.rows);
  if (work.rows > kTileSide) {
    if (first) ZeroSums<true>();
    return MultiplyTiles<true>(work, beside);
  }
  if (first) ZeroSums<false>();
  MultiplyTiles<false>(work, beside);
}

// All tiles with the chunk from `group` on; beside(g) runs once for each of its groups.
template <typename Beside>
TW_INLINE void MultiplyChunk(TileUnit* unit, const PanelWork& work, int64_t group,
                             const uint8_t* weights, const Beside& beside) {
  MultiplyTile(unit, work.Of(work.first_tile, group, weights), group == 0, beside);
  for (int64_t t = work.first_tile + 1; t < work.last_tile; ++t)
    MultiplyTile(unit, work.Of(t, group, weights), group == 0, [](int64_t) {});
}

// Chunks of bf16 weights lie in memory as tiles want them.
void MultiplyStored(const PanelWork& work) {
  TileUnit unit;
  for (int64_t g = 0; g == 0 || g < work.groups(); g += work.chunk()) {
    const uint8_t* chunk = work.w.lines + g * kScaledGroupBytes;
    MultiplyChunk(&unit, work, g, chunk, [&](int64_t i) {
      const uint8_t* at = chunk + i * kScaledGroupBytes + kScaledPrefetch;
      for (int64_t b = 0; b < kScaledGroupBytes; b += kHalfLineBytes) __builtin_prefetch(at + b);
    });
  }
}

// A single tile: chunks are decoded into two buffers in turn, the next one beside the products of
// this one.
template <typename Lines>
void DecodeBeside(const PanelWork& work, uint8_t* buffer) {
  TileUnit unit;
  constexpr int64_t kChunk = kSingleChunkGroups;
  const auto place = [&](int64_t g) { return buffer + g % (2 * kChunk) * kScaledGroupBytes; };
  const auto decode = [&](int64_t g) {
    if (g < work.groups()) Lines::Decode(work.w, g, place(g));
  };
  for (int64_t g = 0; g < kChunk; ++g) decode(g);
  for (int64_t g = 0; g == 0 || g < work.groups(); g += kChunk)
    MultiplyChunk(&unit, work, g, place(g), [&](int64_t i) { decode(g + kChunk + i); });
}

// Several tiles: a chunk is decoded and meets them all.
template <typename Lines>
void DecodeBefore(const PanelWork& work, uint8_t* buffer) {
  TileUnit unit;
  for (int64_t g = 0; g == 0 || g < work.groups(); g += kChunkGroups) {
    const int64_t end = Least(g + kChunkGroups, work.groups());
    for (int64_t i = g; i < end; ++i)
      Lines::Decode(work.w, i, buffer + (i - g) * kScaledGroupBytes);
    MultiplyChunk(&unit, work, g, buffer, [](int64_t) {});
  }
}

template <typename Lines>
void MultiplyDecoded(const PanelWork& work) {
  static_assert(kChunkGroups == 2 * kSingleChunkGroups);
  auto* buffer = static_cast<uint8_t*>(Scratch(Slot::kDecoded, kChunkGroups * kScaledGroupBytes));
  if (work.single()) return DecodeBeside<Lines>(work, buffer);
  DecodeBefore<Lines>(work, buffer);
}

// product[r * kPanelOuts ...] = one panel times the rows of tiles [first_tile, last_tile).
void MultiplyPanel(const Panel& w, const Tiles& x, int64_t first_tile, int64_t last_tile,
                   float* product) {
  const PanelWork work = {w, x, first_tile, last_tile, product};
  switch (x.format.format) {
    case PanelFormat::kBF16: return MultiplyStored(work);
    case PanelFormat::kFp8: return MultiplyDecoded<ScaledByTable<ScaledFp8>>(work);
    case PanelFormat::kFp4: return MultiplyDecoded<ScaledFp4>(work);
    case PanelFormat::kInt8: break;
  }
  MultiplyDecoded<ScaledByTable<ScaledInt8>>(work);
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
