// Projections: plain, grouped, norm with quantiser, and the heads of the drafter.
#pragma once

#include "kernels/cpu/rows.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// A thread of its own pays from about this many multiplications on (some tens of microseconds
// against the two or three that a fork costs).
constexpr int64_t kWorkWorthAThread = 1 << 17;

// Blocks of kPanelOuts outputs that are worth a thread.
TW_INLINE int64_t BlockGrain(int64_t rows, int64_t width) {
  return Most(1, kWorkWorthAThread / Most(1, rows * width * kPanelOuts));
}

TW_INLINE int64_t Blocks(int64_t outs) { return (outs + kPanelOuts - 1) / kPanelOuts; }

// Outputs [begin, end) of one projection: results go to their place at once, bf16 ones by way of
// a small block of floats.
void ProjectBlocks(const Projection& p, int64_t begin, int64_t end, const WideRows& x,
                   int64_t rows) {
  const int64_t width = p.weight.rows;
  if (p.out_f32 != nullptr) {
    return Multiply(p.weight, begin, end, x.row, rows, p.out_f32 + begin, width);
  }
  float* product = ScratchFloats(Slot::kProduct, rows * kPanelOuts);
  for (int64_t o = begin; o < end; o += kPanelOuts) {
    const int64_t outs = Least(kPanelOuts, end - o);
    Multiply(p.weight, o, o + outs, x.row, rows, product, kPanelOuts);
    for (int64_t r = 0; r < rows; ++r) {
      StoreFirst(p.out_bf16 + r * width + o, Load(product + r * kPanelOuts), outs);
    }
  }
}

// Blocks [begin, end) of all projections laid end to end.
void ProjectRange(const LinearParams& p, const WideRows& x, int64_t begin, int64_t end) {
  int64_t first = 0;
  for (const Projection& projection : p.projections) {
    const int64_t outs = projection.weight.rows;
    const int64_t from = Most(begin - first, 0) * kPanelOuts;
    const int64_t to = Least((end - first) * kPanelOuts, outs);
    if (from < to) ProjectBlocks(projection, from, to, x, p.rows);
    first += Blocks(outs);
  }
}

void Linear(const LinearParams& p) {
  if (p.rows == 0) return;
  const WideRows x = Widen(p.stream, p.x, p.rows, p.in, p.in);
  int64_t blocks = 0;
  for (const Projection& projection : p.projections) blocks += Blocks(projection.weight.rows);
  p.stream.team->ParallelFor(blocks, BlockGrain(p.rows, p.in),
                             [&](int64_t begin, int64_t end) { ProjectRange(p, x, begin, end); });
}

// Blocks never straddle two groups: a block belongs to the inputs of one.
void GroupedBlock(const GroupedLinearParams& p, const WideRows& x, int64_t block,
                  const float** row) {
  const int64_t blocks_per_group = Blocks(p.group_out);
  const int64_t group = block / blocks_per_group;
  const int64_t inside = block % blocks_per_group * kPanelOuts;
  const int64_t outs = Least(kPanelOuts, p.group_out - inside);
  const int64_t o = group * p.group_out + inside;
  for (int64_t r = 0; r < p.rows; ++r) row[r] = x.row[r * p.groups + group];
  float* product = ScratchFloats(Slot::kProduct, p.rows * kPanelOuts);
  Multiply(p.weight, o, o + outs, row, p.rows, product, kPanelOuts);
  const int64_t width = p.groups * p.group_out;
  for (int64_t r = 0; r < p.rows; ++r) {
    StoreFirst(p.out + r * width + o, Load(product + r * kPanelOuts), outs);
  }
}

void GroupedLinear(const GroupedLinearParams& p) {
  if (p.rows == 0) return;
  const WideRows x = Widen(p.stream, p.x, p.rows * p.groups, p.group_in, p.group_in);
  p.stream.team->ParallelFor(
      p.groups * Blocks(p.group_out), BlockGrain(p.rows, p.group_in),
      [&](int64_t begin, int64_t end) {
        auto** row = static_cast<const float**>(
            Scratch(Slot::kHiddenPointers, p.rows * static_cast<int64_t>(sizeof(float*))));
        for (int64_t b = begin; b < end; ++b) GroupedBlock(p, x, b, row);
      });
  const int64_t width = p.groups * p.group_out;
  p.stream.team->ParallelFor(p.rows, Most(1, (1 << 15) / width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      RoundTrip(p.quantise, p.out + r * width, width, p.out + r * width);
    }
  });
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

// logits[r][v] += corrections of outputs [begin, end).
void CorrectLogits(const MarkovParams& p, const float* const* x, int64_t begin, int64_t end) {
  float* product = ScratchFloats(Slot::kProduct, p.rows * kPanelOuts);
  for (int64_t v = begin; v < end; v += kPanelOuts) {
    const int64_t outs = Least(kPanelOuts, end - v);
    Multiply(p.head, v, v + outs, x, p.rows, product, kPanelOuts);
    for (int64_t r = 0; r < p.rows; ++r) {
      float* logits = p.logits + r * p.logits_stride + v;
      StoreFirst(logits, LoadFirst(logits, outs) + Load(product + r * kPanelOuts), outs);
    }
  }
}

// One row at a time: state and embedding side by side, as floats.
void Confidence(const MarkovParams& p, int64_t row, const float* embedded) {
  const int64_t width = p.hidden + p.rank;
  float* joined = ScratchFloats(Slot::kMix, PaddedWidth(width) + kGroup);
  WidenRow(p.state + row * p.state_stride, p.hidden, joined);
  for (int64_t c = 0; c < p.rank; ++c) joined[p.hidden + c] = embedded[c];
  for (int64_t c = width; c < PaddedWidth(width); ++c) joined[c] = 0;
  const float* x = joined;
  Multiply(p.confidence, 0, 1, &x, 1, p.confidence_out + row, 1);
}

void Markov(const MarkovParams& p) {
  if (p.rows == 0) return;
  const int64_t padded = PaddedWidth(p.rank);
  float* values = ScratchFloats(Slot::kInput, p.rows * padded);
  auto** x = static_cast<const float**>(
      Scratch(Slot::kRowPointers, p.rows * static_cast<int64_t>(sizeof(float*))));
  for (int64_t r = 0; r < p.rows; ++r) {
    WidenRow(p.embed + p.previous[r] * p.rank, p.rank, values + r * padded);
    x[r] = values + r * padded;
  }
  p.stream.team->ParallelFor(
      Blocks(p.vocab), BlockGrain(p.rows, p.rank), [&](int64_t begin, int64_t end) {
        CorrectLogits(p, x, begin * kPanelOuts, Least(end * kPanelOuts, p.vocab));
      });
  for (int64_t r = 0; r < p.rows; ++r) Confidence(p, r, x[r]);
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
