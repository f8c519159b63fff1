// Router and experts (model.md 2.6).
#pragma once

#include "kernels/cpu/grouping.h"
#include "kernels/cpu/linear.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// The topk best of score + bias, ties to the lowest expert, ascending; their normalised weights.
void ChooseExperts(const GateParams& p, int64_t row, const float* score, float* biased) {
  const bool image = p.row_is_image != nullptr && p.row_is_image[row] != 0;
  const float* bias = image ? p.image_bias : p.bias;
  constexpr float kTaken = -__builtin_inff();
  for (int64_t e = 0; e < p.experts; ++e) biased[e] = score[e] + bias[e];
  int32_t* chosen = p.chosen + row * p.topk;
  for (int64_t i = 0; i < p.topk; ++i) {
    int64_t best = -1;
    for (int64_t e = 0; e < p.experts; ++e) {
      if (biased[e] != kTaken && (best < 0 || biased[e] > biased[best])) best = e;
    }
    best = Most(best, 0);
    biased[best] = kTaken;
    int64_t at = i;  // insertion keeps the chosen ascending
    for (; at > 0 && chosen[at - 1] > best; --at) chosen[at] = chosen[at - 1];
    chosen[at] = static_cast<int32_t>(best);
  }
  float sum = 0;
  for (int64_t i = 0; i < p.topk; ++i) sum += score[chosen[i]];
  for (int64_t i = 0; i < p.topk; ++i) {
    p.weights[row * p.topk + i] = score[chosen[i]] / (sum + 1e-20f) * p.route_scale;
  }
}

// Rows [begin, end): scores sqrt(softplus(W x)) from W x, then the choice.
void ChooseRows(const GateParams& p, float* score, int64_t begin, int64_t end) {
  const int64_t padded = PaddedWidth(p.experts);
  float* biased = ScratchFloats(Slot::kSecondProduct, padded);
  for (int64_t r = begin; r < end; ++r) {
    float* row = score + r * padded;
    for (int64_t e = 0; e < p.experts; e += kLanes) {
      const int64_t n = p.experts - e;
      StoreFirst(row + e, SquareRoot(Softplus(LoadFirst(row + e, n))), n);
    }
    ChooseExperts(p, r, row, biased);
  }
}

template <Numerics kNumerics>
void Gate(const GateParams& p) {
  if (p.rows == 0) return;
  if (!HasPanels(p.weight.format)) return reference::Gate(p);
  const TileFormat format = TilesFor(p.weight, kNumerics);
  const Tiles x = MakeTiles(p.stream, format, p.x, p.rows, p.hidden, TileSlot(format.format));
  const Panels panels(p.weight, kNumerics);
  const int64_t padded = PaddedWidth(p.experts);
  float* score = ScratchFloats(Slot::kScores, p.rows * padded);
  p.stream.team->ParallelFor(
      panels.count(), PanelGrain(p.rows, p.hidden), [&](int64_t begin, int64_t end) {
        ForProducts(panels, begin, end, x, [&](int64_t r, int64_t e, const float* product) {
          StoreOuts(score + r * padded + e, product, kPanelOuts);
        });
      });
  constexpr int64_t kScoresWorthAThread = 1 << 12;
  p.stream.team->ParallelFor(p.rows, Most(1, kScoresWorthAThread / Most(1, p.experts)),
                             [&](int64_t begin, int64_t end) { ChooseRows(p, score, begin, end); });
}

// --- Experts. ---

// One feed-forward network and the rows that go through it.
struct Share {
  const FeedForward* network;
  const int32_t* row;   // row of x and of the output; null: 0, 1, 2, ...
  const float* weight;  // null: 1
  Tiles x;              // inputs
  Tiles inner;          // the down projection's inputs, written on the way
  uint32_t* inner_words;

  int64_t rows() const { return x.tiling.rows; }
  int64_t RowOf(int64_t i) const { return row != nullptr ? row[i] : i; }
};

bool HasShared(const ExpertsParams& p) { return p.shared.w1.rows > 0; }

// What all threads of one call share. Rows of all experts lie one after the other, the shared
// expert's last.
struct ExpertWork {
  const ExpertsParams& p;
  ExpertGroups groups;
  uint32_t* x;
  uint32_t* inner;
  TileFormat routed_x, routed_inner, shared_x, shared_inner;

  int64_t experts() const { return static_cast<int64_t>(p.experts.size()); }

  // Share e of experts + 1; the last one is the shared expert.
  Share Of(int64_t e) const {
    const bool shared = e == experts();
    const int64_t assigned = p.rows * p.topk;
    const int64_t first = shared ? assigned : groups.begin[e];
    // A call without a shared network has no rows for it.
    const int64_t shared_rows = HasShared(p) ? p.rows : 0;
    const Tiling tiling = {shared ? shared_rows : groups.begin[e + 1] - first};
    uint32_t* inner_words = inner + first * routed_inner.Words();
    const uint32_t* x_words = x + first * routed_x.Words();
    if (shared) {
      return {&p.shared,
              nullptr,
              nullptr,
              {shared_x, tiling, x_words},
              {shared_inner, tiling, inner_words},
              inner_words};
    }
    return {p.experts.data() + e,
            groups.row + first,
            groups.weight + first,
            {routed_x, tiling, x_words},
            {routed_inner, tiling, inner_words},
            inner_words};
  }
};

// h = silu(min(g, limit)) * clamp(u, -limit, limit) * weight, rounded to bf16.
TW_INLINE F SwiGlu(F gate, F up, F limit, F weight) {
  const F g = Min(RoundToBF16(gate), limit);
  const F u = Max(Min(RoundToBF16(up), limit), Zero() - limit);
  return RoundToBF16(g * Sigmoid(g) * u * weight);
}

void QuantiseHidden(RowFormat format, F* a, F* b, int64_t width) {
  if (format == RowFormat::kBF16) return;
  if (format == RowFormat::kFp8E8M0) return QuantiseFp8Group(a, b);
  BF16 row[kGroup];
  StoreBF16(row, *a);
  StoreBF16(row + kLanes, *b);
  tensor::RoundTripRow(format, row, width, row);
  *a = LoadBF16(row);
  *b = LoadBF16(row + kLanes);
}

// Hidden channels of group g for the rows of one tile: SwiGLU of both products, the quantiser, and
// the words that the down projection reads.
void FinishHidden(const ExpertsParams& p, const Share& share, int64_t tile, int64_t g,
                  const float* gate, const float* up) {
  const TileFormat& f = share.inner.format;
  const int64_t first = share.inner.tiling.First(tile), rows = share.inner.tiling.Rows(tile);
  uint32_t* words = share.inner_words + first * f.Words() + g * f.GroupWords() * rows;
  const int64_t width = Least(kGroup, p.inner - g * kGroup);
  for (int64_t r = 0; r < rows; ++r) {
    const F weight = Set(share.weight != nullptr ? share.weight[first + r] : 1.0f);
    F h[2];
    for (int half = 0; half < 2; ++half) {
      const int64_t at = r * kGroup + half * kLanes;
      const int64_t n = Least(kLanes, Most(0, width - half * kLanes));
      h[half] = SwiGlu(LoadFirst(gate + at, n), LoadFirst(up + at, n), Set(p.swiglu_limit), weight);
    }
    QuantiseHidden(p.quantise, &h[0], &h[1], width);
    BF16 values[kGroup];
    StoreBF16(values, h[0]);
    StoreBF16(values + kLanes, h[1]);
    PutGroup(f.format, f.numerics, values, words + RowStart(r), WordStep(rows));
  }
}

// Groups [begin, end) of the hidden channels of one share; a group is a panel.
template <Numerics kNumerics>
void HiddenRange(const ExpertsParams& p, const Share& share, int64_t begin, int64_t end) {
  const Panels w1(share.network->w1, kNumerics), w3(share.network->w3, kNumerics);
  ForTileRuns(share.x, [&](int64_t first, int64_t last) {
    const int64_t base = share.x.tiling.First(first);
    const int64_t rows = share.x.tiling.First(last) - base;
    float* gate = ScratchFloats(Slot::kProduct, rows * kPanelOuts);
    float* up = ScratchFloats(Slot::kSecondProduct, rows * kPanelOuts);
    for (int64_t g = begin; g < end; ++g) {
      MultiplyPanel(w1.Get(g), share.x, first, last, gate);
      MultiplyPanel(w3.Get(g), share.x, first, last, up);
      for (int64_t tile = first; tile < last; ++tile) {
        const int64_t at = (share.x.tiling.First(tile) - base) * kPanelOuts;
        FinishHidden(p, share, tile, g, gate + at, up + at);
      }
    }
  });
}

// Output panels [begin, end): every share in ascending order adds to its rows, the shared expert
// last.
template <Numerics kNumerics>
void OutputRange(const ExpertWork& work, int64_t begin, int64_t end) {
  const ExpertsParams& p = work.p;
  const int64_t stride = (end - begin) * kPanelOuts;
  float* sum = ScratchFloats(Slot::kSum, p.rows * stride);
  for (int64_t i = 0; i < p.rows * stride; i += kLanes) Store(sum + i, Zero());
  for (int64_t e = 0; e <= work.experts(); ++e) {
    const Share share = work.Of(e);
    if (share.rows() == 0) continue;
    ForProducts(Panels(share.network->w2, kNumerics), begin, end, share.inner,
                [&](int64_t r, int64_t o, const float* product) {
                  float* at = sum + share.RowOf(r) * stride + o - begin * kPanelOuts;
                  for (int i = 0; i < kPanelOuts; i += kLanes)
                    Store(at + i, Load(at + i) + RoundToBF16(Load(product + i)));
                });
  }
  for (int64_t r = 0; r < p.rows; ++r) {
    const int64_t first = begin * kPanelOuts;
    for (int64_t o = first; o < Least(end * kPanelOuts, p.hidden); o += kLanes)
      StoreFirst(p.out + r * p.hidden + o, Load(sum + r * stride + o - first), p.hidden - o);
  }
}

// The rows of every share as tiles.
void PutShares(const ExpertWork& work) {
  const ExpertsParams& p = work.p;
  p.stream.team->ParallelFor(work.experts() + 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e) {
      const Share share = work.Of(e);
      auto* words = work.x + (share.x.words - work.x);
      for (int64_t t = 0; t < share.x.tiling.Count(); ++t) {
        PutTile(
            share.x.format, share.x.tiling, t,
            [&](int64_t i) { return p.x + share.RowOf(i) * p.hidden; }, words);
      }
    }
  });
}

template <Numerics kNumerics>
ExpertWork PrepareExperts(const ExpertsParams& p) {
  const FeedForward& routed = p.experts.empty() ? p.shared : p.experts.front();
  ExpertWork work = {
      p,
      GroupByExpert(p.chosen, p.weights, p.rows, p.topk, static_cast<int64_t>(p.experts.size())),
      nullptr,
      nullptr,
      TilesFor(routed.w1, kNumerics),
      TilesFor(routed.w2, kNumerics),
      TilesFor(HasShared(p) ? p.shared.w1 : routed.w1, kNumerics),
      TilesFor(HasShared(p) ? p.shared.w2 : routed.w2, kNumerics)};
  const int64_t assigned = p.rows * p.topk;
  const auto words = [&](const TileFormat& routed_rows, const TileFormat& shared_rows) {
    return (assigned * routed_rows.Words() + p.rows * shared_rows.Words()) * 4;
  };
  work.x = static_cast<uint32_t*>(Scratch(Slot::kInput, words(work.routed_x, work.shared_x)));
  work.inner =
      static_cast<uint32_t*>(Scratch(Slot::kHidden, words(work.routed_inner, work.shared_inner)));
  PutShares(work);
  return work;
}

bool AllHavePanels(const ExpertsParams& p) {
  const auto has = [](const FeedForward& f) {
    return HasPanels(f.w1.format) && f.w3.format == f.w1.format && HasPanels(f.w2.format);
  };
  for (const FeedForward& f : p.experts) {
    if (!has(f) || f.w1.format != p.experts.front().w1.format ||
        f.w2.format != p.experts.front().w2.format) {
      return false;
    }
  }
  return !HasShared(p) || has(p.shared);
}

// Threads split channels, not experts: each walks the experts in the same order, none has more to
// do than another, and there is nothing to combine. Each expert's weights are read once.
template <Numerics kNumerics>
void Experts(const ExpertsParams& p) {
  if (p.rows == 0) return;
  if (!AllHavePanels(p)) return reference::Experts(p);
  const ExpertWork work = PrepareExperts<kNumerics>(p);
  const int64_t passes = p.rows * (p.topk + 1);
  p.stream.team->ParallelFor(PaddedWidth(p.inner) / kGroup,
                             Most(1, kWorkWorthAThread / Most(1, 2 * kGroup * passes * p.hidden)),
                             [&](int64_t begin, int64_t end) {
                               for (int64_t e = 0; e <= work.experts(); ++e) {
                                 const Share share = work.Of(e);
                                 if (share.rows() > 0) HiddenRange<kNumerics>(p, share, begin, end);
                               }
                             });
  p.stream.team->ParallelFor(
      PanelsOf(p.hidden), PanelGrain(passes, p.inner),
      [&](int64_t begin, int64_t end) { OutputRange<kNumerics>(work, begin, end); });
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
