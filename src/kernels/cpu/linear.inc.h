// Projections: plain, grouped, norm with quantiser, and the heads of the drafter.
#pragma once

#include "kernels/cpu/panel.inc.h"
#include "kernels/reference/bodies.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// A thread of its own pays from about this many multiplications on (some tens of microseconds
// against the two or three that a fork costs).
constexpr int64_t kWorkWorthAThread = 1 << 17;

// Panels that are worth a thread.
TW_INLINE int64_t PanelGrain(int64_t rows, int64_t width) {
  return Most(1, kWorkWorthAThread / Most(1, rows * width * kPanelOuts));
}

TW_INLINE int64_t PanelsOf(int64_t outs) { return (outs + kPanelOuts - 1) / kPanelOuts; }

TW_INLINE Slot TileSlot(PanelFormat format) {
  switch (format) {
    case PanelFormat::kBF16: return Slot::kTilesBF16;
    case PanelFormat::kFp8: return Slot::kTilesFp8;
    case PanelFormat::kFp4: return Slot::kTilesFp4;
    case PanelFormat::kInt8: break;
  }
  return Slot::kTilesInt8;
}

// The rows of one call in every form that its matrices ask for.
struct Inputs {
  Tiles tiles[4];  // by PanelFormat, where made
  WideRows wide;   // for fp32 matrices
};

template <Numerics kNumerics>
Inputs PrepareInputs(const LinearParams& p) {
  Inputs inputs = {};
  bool made[4] = {}, wide = false;
  for (const Projection& projection : p.projections) {
    if (!HasPanels(projection.weight.format)) {
      if (!wide) inputs.wide = Widen(p.stream, p.x, p.rows, p.in, p.in);
      wide = true;
      continue;
    }
    const TileFormat format = TilesFor(projection.weight, kNumerics);
    const auto i = static_cast<int>(format.format);
    if (!made[i])
      inputs.tiles[i] = MakeTiles(p.stream, format, p.x, p.rows, p.in, TileSlot(format.format));
    made[i] = true;
  }
  return inputs;
}

// Outputs of panels [begin, end) of one projection.
template <Numerics kNumerics>
void ProjectPanels(const Projection& p, int64_t begin, int64_t end, const Inputs& inputs,
                   int64_t rows) {
  const int64_t width = p.weight.rows;
  const auto put = [&](int64_t r, int64_t o, const float* product) {
    if (p.out_f32 != nullptr) {
      StoreOuts(p.out_f32 + r * width + o, product, width - o);
    } else {
      StoreOuts(p.out_bf16 + r * width + o, product, width - o);
    }
  };
  if (HasPanels(p.weight.format)) {
    const Panels panels(p.weight, kNumerics);
    return ForProducts(panels, begin, end, inputs.tiles[static_cast<int>(panels.layout().format)],
                       put);
  }
  for (int64_t o = begin * kPanelOuts; o < Least(end * kPanelOuts, width); o += kPanelOuts) {
    for (int64_t r = 0; r < rows; ++r) {
      float product[kPanelOuts];
      Multiply(p.weight, o, Least(o + kPanelOuts, width), inputs.wide.row + r, 1, product,
               kPanelOuts);
      put(r, o, product);
    }
  }
}

// Panels [begin, end) of all projections laid end to end.
template <Numerics kNumerics>
void ProjectRange(const LinearParams& p, const Inputs& inputs, int64_t begin, int64_t end) {
  int64_t first = 0;
  for (const Projection& projection : p.projections) {
    const int64_t count = PanelsOf(projection.weight.rows);
    const int64_t from = Most(begin - first, 0), to = Least(end - first, count);
    if (from < to) ProjectPanels<kNumerics>(projection, from, to, inputs, p.rows);
    first += count;
  }
}

template <Numerics kNumerics>
void Linear(const LinearParams& p) {
  if (p.rows == 0) return;
  const Inputs inputs = PrepareInputs<kNumerics>(p);
  int64_t panels = 0;
  for (const Projection& projection : p.projections) panels += PanelsOf(projection.weight.rows);
  p.stream.team->ParallelFor(panels, PanelGrain(p.rows, p.in), [&](int64_t begin, int64_t end) {
    ProjectRange<kNumerics>(p, inputs, begin, end);
  });
}

// The part of a panel that belongs to one group: panels may straddle two.
void GroupedPanel(const GroupedLinearParams& p, const Panels& panels, const Tiles* tiles,
                  int64_t group, int64_t panel) {
  const int64_t begin = group * p.group_out, end = begin + p.group_out;
  const int64_t width = p.groups * p.group_out;
  ForProducts(panels, panel, panel + 1, tiles[group],
              [&](int64_t r, int64_t o, const float* product) {
                const int64_t first = Most(begin, o);
                float part[kPanelOuts] = {};
                for (int64_t i = first; i < Least(end, o + kPanelOuts); ++i)
                  part[i - first] = product[i - o];
                StoreOuts(p.out + r * width + first, part, Least(end, o + kPanelOuts) - first);
              });
}

void QuantiseRows(const Stream& stream, RowFormat format, int64_t rows, int64_t width, BF16* x) {
  stream.team->ParallelFor(rows, Most(1, (1 << 15) / width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) RoundTrip(format, x + r * width, width, x + r * width);
  });
}

// Tiles of every group, side by side in memory.
template <Numerics kNumerics>
const Tiles* GroupTiles(const GroupedLinearParams& p) {
  const TileFormat format = TilesFor(p.weight, kNumerics);
  const int64_t words = p.rows * format.Words();
  auto* all = static_cast<uint32_t*>(Scratch(TileSlot(format.format), p.groups * words * 4));
  auto* tiles = static_cast<Tiles*>(
      Scratch(Slot::kGroupTiles, p.groups * static_cast<int64_t>(sizeof(Tiles))));
  const Tiling tiling = {p.rows};
  for (int64_t g = 0; g < p.groups; ++g) tiles[g] = {format, tiling, all + g * words};
  p.stream.team->ParallelFor(
      p.groups * tiling.Count(), Most(1, (1 << 14) / p.group_in), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t g = i / tiling.Count();
          PutTile(
              format, tiling, i % tiling.Count(),
              [&](int64_t r) { return p.x + (r * p.groups + g) * p.group_in; }, all + g * words);
        }
      });
  return tiles;
}

template <Numerics kNumerics>
void GroupedLinear(const GroupedLinearParams& p) {
  if (p.rows == 0) return;
  if (!HasPanels(p.weight.format)) return reference::GroupedLinear(p);
  const Panels panels(p.weight, kNumerics);
  const Tiles* tiles = GroupTiles<kNumerics>(p);
  const int64_t most = PanelsOf(p.group_out) + 1;  // panels that a group touches, at most
  p.stream.team->ParallelFor(p.groups * most, PanelGrain(p.rows, p.group_in),
                             [&](int64_t begin, int64_t end) {
                               for (int64_t i = begin; i < end; ++i) {
                                 const int64_t group = i / most;
                                 const int64_t panel = group * p.group_out / kPanelOuts + i % most;
                                 if (panel * kPanelOuts < (group + 1) * p.group_out)
                                   GroupedPanel(p, panels, tiles, group, panel);
                               }
                             });
  QuantiseRows(p.stream, p.quantise, p.rows, p.groups * p.group_out, p.out);
}

void Norm(const NormParams& p) {
  p.stream.team->ParallelFor(p.rows, Most(1, (1 << 15) / p.width), [&](int64_t begin, int64_t end) {
    auto* kept = static_cast<BF16*>(Scratch(Slot::kRow, p.width * 2));
    for (int64_t r = begin; r < end; ++r) {
      BF16* out = p.out != nullptr ? p.out + r * p.width : kept;
      RmsNorm(p.x + r * p.width, p.weight, p.width, p.eps, out);
      if (p.out_quantised == nullptr) continue;
      RoundTrip(p.quantise, out, p.width, p.out_quantised + r * p.width);
    }
  });
}

// Rows of state and embedding side by side.
const BF16* JoinRows(const MarkovParams& p) {
  const int64_t width = p.hidden + p.rank;
  auto* joined = static_cast<BF16*>(Scratch(Slot::kMix, p.rows * width * 2));
  for (int64_t r = 0; r < p.rows; ++r) {
    BF16* row = joined + r * width;
    for (int64_t c = 0; c < p.hidden; ++c) row[c] = p.state[r * p.state_stride + c];
    for (int64_t c = 0; c < p.rank; ++c) row[p.hidden + c] = p.embed[p.previous[r] * p.rank + c];
  }
  return joined;
}

template <Numerics kNumerics>
void Markov(const MarkovParams& p) {
  if (p.rows == 0) return;
  if (!HasPanels(p.head.format) || !HasPanels(p.confidence.format)) return reference::Markov(p);
  const BF16* joined = JoinRows(p);
  const int64_t width = p.hidden + p.rank;
  const TileFormat head = TilesFor(p.head, kNumerics);
  const TileFormat confidence = TilesFor(p.confidence, kNumerics);
  const Tiles embedded =
      MakeTiles(p.stream, head, joined + p.hidden, p.rows, width, TileSlot(head.format));
  const Panels panels(p.head, kNumerics);
  p.stream.team->ParallelFor(
      panels.count(), PanelGrain(p.rows, p.rank), [&](int64_t begin, int64_t end) {
        ForProducts(panels, begin, end, embedded, [&](int64_t r, int64_t v, const float* product) {
          float* logits = p.logits + r * p.logits_stride;
          for (int64_t i = v; i < Least(v + kPanelOuts, p.vocab); i += kLanes) {
            const int64_t n = p.vocab - i;
            StoreFirst(logits + i, LoadFirst(logits + i, n) + Load(product + i - v), n);
          }
        });
      });
  const Tiles both =
      MakeTiles(p.stream, confidence, joined, p.rows, width, TileSlot(confidence.format));
  ForProducts(Panels(p.confidence, kNumerics), 0, 1, both,
              [&](int64_t r, int64_t, const float* product) { p.confidence_out[r] = product[0]; });
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
