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

// Rows [begin, end): scores sqrt(softplus(W x)), then the choice.
void GateRows(const GateParams& p, const WideRows& x, int64_t begin, int64_t end) {
  const int64_t padded = PaddedWidth(p.experts);
  float* score = ScratchFloats(Slot::kProduct, (end - begin) * padded);
  float* biased = ScratchFloats(Slot::kSecondProduct, padded);
  Multiply(p.weight, 0, p.experts, x.row + begin, end - begin, score, padded);
  for (int64_t r = begin; r < end; ++r) {
    float* row = score + (r - begin) * padded;
    for (int64_t e = 0; e < p.experts; e += kLanes) {
      const int64_t n = p.experts - e;
      StoreFirst(row + e, SquareRoot(Softplus(LoadFirst(row + e, n))), n);
    }
    ChooseExperts(p, r, row, biased);
  }
}

void Gate(const GateParams& p) {
  if (p.rows == 0) return;
  const WideRows x = Widen(p.stream, p.x, p.rows, p.hidden, p.hidden);
  const int64_t grain = Most(1, kWorkWorthAThread / Most(1, p.experts * p.hidden));
  p.stream.team->ParallelFor(p.rows, grain,
                             [&](int64_t begin, int64_t end) { GateRows(p, x, begin, end); });
}

// --- Experts. ---

// One feed-forward network and the rows that go through it.
struct Share {
  const FeedForward* network;
  int64_t rows;
  const int32_t* row;         // row of x and of the output; null: 0, 1, 2, ...
  const float* weight;        // null: 1
  const float* const* x;      // [rows], padded floats
  const float* const* inner;  // [rows], the down projection's input, padded floats
  float* inner_values;        // where those rows are written, PaddedWidth(inner) apart
};

// What all threads of one call share.
struct ExpertWork {
  const ExpertsParams& p;
  ExpertGroups groups;
  const float** x;       // [assignments + rows]: rows of x in the order of the groups
  const float** hidden;  // the same order
  float* hidden_values;  // [assignments + rows, PaddedWidth(inner)]

  // Share e of experts + 1; the last one is the shared expert.
  Share Of(int64_t e) const {
    const auto experts = static_cast<int64_t>(p.experts.size());
    const int64_t assigned = p.rows * p.topk;
    const int64_t first = e == experts ? assigned : groups.begin[e];
    float* values = hidden_values + first * PaddedWidth(p.inner);
    if (e == experts) {
      return {&p.shared, p.rows, nullptr, nullptr, x + first, hidden + first, values};
    }
    return {p.experts.data() + e,
            groups.begin[e + 1] - first,
            groups.row + first,
            groups.weight + first,
            x + first,
            hidden + first,
            values};
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

// Hidden channels [begin, begin + 32) of one share: gate and up products, SwiGLU, quantiser.
void HiddenGroup(const ExpertWork& work, const Share& share, int64_t begin) {
  const ExpertsParams& p = work.p;
  const int64_t width = Least(kGroup, p.inner - begin);
  float* gate = ScratchFloats(Slot::kProduct, share.rows * kGroup);
  float* up = ScratchFloats(Slot::kSecondProduct, share.rows * kGroup);
  Multiply(share.network->w1, begin, begin + width, share.x, share.rows, gate, kGroup);
  Multiply(share.network->w3, begin, begin + width, share.x, share.rows, up, kGroup);
  for (int64_t r = 0; r < share.rows; ++r) {
    const F weight = Set(share.weight != nullptr ? share.weight[r] : 1.0f);
    F h[2];
    for (int half = 0; half < 2; ++half) {
      const int64_t at = r * kGroup + half * kLanes;
      const int64_t n = Most(0, width - half * kLanes);
      h[half] = SwiGlu(LoadFirst(gate + at, n), LoadFirst(up + at, n), Set(p.swiglu_limit), weight);
    }
    QuantiseHidden(p.quantise, &h[0], &h[1], width);
    float* out = share.inner_values + r * PaddedWidth(p.inner) + begin;
    Store(out, h[0]);
    Store(out + kLanes, h[1]);
  }
}

// Adds one share to sum [rows, outs padded to whole blocks], outputs from `begin` on.
void AddShare(const Share& share, int64_t begin, int64_t outs, float* product, float* sum) {
  const int64_t stride = Blocks(outs) * kPanelOuts;
  for (int64_t o = 0; o < outs; o += kPanelOuts) {
    const int64_t end = Least(o + kPanelOuts, outs);
    Multiply(share.network->w2, begin + o, begin + end, share.inner, share.rows, product,
             kPanelOuts);
    for (int64_t i = 0; i < share.rows; ++i) {
      float* at = sum + (share.row != nullptr ? share.row[i] : i) * stride + o;
      Store(at, Load(at) + RoundToBF16(Load(product + i * kPanelOuts)));
    }
  }
}

// Output channels [begin, begin + outs): every share in ascending order adds to its rows, the
// shared expert last.
void OutputRange(const ExpertWork& work, int64_t begin, int64_t outs) {
  const ExpertsParams& p = work.p;
  const auto experts = static_cast<int64_t>(p.experts.size());
  const int64_t stride = Blocks(outs) * kPanelOuts;
  float* product = ScratchFloats(Slot::kProduct, p.rows * kPanelOuts);
  float* sum = ScratchFloats(Slot::kSum, p.rows * stride);
  for (int64_t i = 0; i < p.rows * stride; i += kLanes) Store(sum + i, Zero());
  for (int64_t e = 0; e <= experts; ++e) {
    const Share share = work.Of(e);
    if (share.rows > 0) AddShare(share, begin, outs, product, sum);
  }
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t o = 0; o < outs; o += kLanes) {
      StoreFirst(p.out + r * p.hidden + begin + o, Load(sum + r * stride + o), outs - o);
    }
  }
}

ExpertWork Prepare(const ExpertsParams& p) {
  const int64_t assigned = p.rows * p.topk;
  const int64_t all = assigned + p.rows;
  const WideRows x = Widen(p.stream, p.x, p.rows, p.hidden, p.hidden);
  auto** pointers = static_cast<const float**>(
      Scratch(Slot::kHiddenPointers, 2 * all * static_cast<int64_t>(sizeof(float*))));
  ExpertWork work = {
      p, GroupByExpert(p.chosen, p.weights, p.rows, p.topk, static_cast<int64_t>(p.experts.size())),
      pointers, pointers + all, ScratchFloats(Slot::kHidden, all * PaddedWidth(p.inner))};
  for (int64_t i = 0; i < all; ++i) {
    work.x[i] = x.row[i < assigned ? work.groups.row[i] : i - assigned];
    work.hidden[i] = work.hidden_values + i * PaddedWidth(p.inner);
  }
  return work;
}

// Threads split channels, not experts: each walks the experts in the same order, none has more to
// do than another, and there is nothing to combine.
void Experts(const ExpertsParams& p) {
  if (p.rows == 0) return;
  const ExpertWork work = Prepare(p);
  const auto experts = static_cast<int64_t>(p.experts.size());
  const int64_t passes = p.rows * (p.topk + 1);
  p.stream.team->ParallelFor(PaddedWidth(p.inner) / kGroup,
                             Most(1, kWorkWorthAThread / Most(1, 2 * kGroup * passes * p.hidden)),
                             [&](int64_t begin, int64_t end) {
                               for (int64_t e = 0; e <= experts; ++e) {
                                 const Share share = work.Of(e);
                                 if (share.rows == 0) continue;
                                 for (int64_t g = begin; g < end; ++g)
                                   HiddenGroup(work, share, g * kGroup);
                               }
                             });
  p.stream.team->ParallelFor(Blocks(p.hidden), BlockGrain(passes, p.inner),
                             [&](int64_t begin, int64_t end) {
                               const int64_t first = begin * kPanelOuts;
                               OutputRange(work, first, Least(end * kPanelOuts, p.hidden) - first);
                             });
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
