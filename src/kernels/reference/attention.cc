// Sparse attention with a sink over window and selected rows (model.md 2.5). Mirrors the published
// reference: fp32 logits, online softmax over blocks of 64 slots with the running maximum starting
// at -1e30, probabilities rounded to bf16 before they meet the values, fp32 accumulation.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/bodies.h"

namespace thalweg::kernels::reference {
namespace {

constexpr int64_t kBlockSlots = 64;
constexpr float kFirstMaximum = -1e30f;
constexpr float kMasked = -std::numeric_limits<float>::infinity();

// The keys of one row in canonical slot order, dequantised; masked slots hold zeros.
struct Slots {
  std::vector<float> keys;    // [slots, width]
  std::vector<uint8_t> used;  // [slots]
};

const uint8_t* WindowRow(const AttentionParams& p, const WindowKeys& keys, int64_t position) {
  const int64_t row_bytes = tensor::RowBytes(p.window_format, p.width);
  if (position >= keys.chunk_begin) return keys.chunk + (position - keys.chunk_begin) * row_bytes;
  return keys.ring + (position % keys.ring_rows) * row_bytes;
}

void GatherWindow(const AttentionParams& p, int64_t row, Slots* slots) {
  const WindowKeys& keys = p.window_keys[p.row_sequence[row]];
  const int64_t first = std::max<int64_t>(0, p.window_end[row] - p.window + 1);
  for (int64_t slot = 0; slot < p.window; ++slot) {
    const int64_t position = first + slot;
    if (position > p.window_end[row] || position < keys.floor) continue;
    tensor::DecodeRow(p.window_format, WindowRow(p, keys, position), p.width,
                      slots->keys.data() + slot * p.width);
    slots->used[static_cast<size_t>(slot)] = 1;
  }
}

void GatherSelected(const AttentionParams& p, int64_t row, Slots* slots) {
  const PagedRows& rows = p.selected_rows[p.row_sequence[row]];
  for (int64_t i = 0; i < p.topk; ++i) {
    const int64_t entry = p.selection[row * p.topk + i];
    if (entry < 0) break;
    tensor::DecodeRow(rows.format, rows.Row(entry), p.width,
                      slots->keys.data() + (p.window + i) * p.width);
    slots->used[static_cast<size_t>(p.window + i)] = 1;
  }
}

// Running state of one head's softmax.
struct Softmax {
  float maximum = kFirstMaximum;
  float denominator = 0;
  std::vector<float> sum;  // [width]
};

void AbsorbBlock(const AttentionParams& p, const Slots& slots, int64_t begin, const float* q,
                 Softmax* state) {
  const int64_t end = std::min(begin + kBlockSlots, static_cast<int64_t>(slots.used.size()));
  float logit[kBlockSlots];
  float maximum = state->maximum;
  for (int64_t s = begin; s < end; ++s) {
    const bool used = slots.used[static_cast<size_t>(s)] != 0;
    const float* key = slots.keys.data() + s * p.width;
    logit[s - begin] = used ? static_cast<float>(Dot(q, key, p.width)) * p.scale : kMasked;
    maximum = std::max(maximum, logit[s - begin]);
  }
  const float correction = std::exp(state->maximum - maximum);
  state->maximum = maximum;
  state->denominator *= correction;
  for (float& value : state->sum) value *= correction;
  for (int64_t s = begin; s < end; ++s) {
    const float probability = std::exp(logit[s - begin] - maximum);
    state->denominator += probability;
    const float rounded = tensor::RoundBF16(probability);
    const float* value = slots.keys.data() + s * p.width;
    for (int64_t c = 0; c < p.width; ++c) state->sum[static_cast<size_t>(c)] += rounded * value[c];
  }
}

void AttendHead(const AttentionParams& p, const Slots& slots, int64_t row, int64_t head,
                std::vector<float>* q) {
  const int64_t half = p.rotation.rope_dim / 2;
  const float* cos = p.rotation.cos + row * half;
  const float* sin = p.rotation.sin + row * half;
  BF16* query = p.query + (row * p.heads + head) * p.width;
  Rotate(query, p.width, cos, sin, p.rotation.rope_dim, false);
  Widen(query, p.width, q->data());
  Softmax state;
  state.sum.assign(static_cast<size_t>(p.width), 0.0f);
  for (int64_t begin = 0; begin < static_cast<int64_t>(slots.used.size()); begin += kBlockSlots) {
    AbsorbBlock(p, slots, begin, q->data(), &state);
  }
  const float denominator = state.denominator + std::exp(p.sink[head] - state.maximum);
  BF16* out = p.out + (row * p.heads + head) * p.width;
  for (int64_t c = 0; c < p.width; ++c)
    out[c] = tensor::ToBF16(state.sum[static_cast<size_t>(c)] / denominator);
  Rotate(out, p.width, cos, sin, p.rotation.rope_dim, true);
}

}  // namespace

void Attention(const AttentionParams& p) {
  const int64_t slot_count = p.window + (p.selected_rows != nullptr ? p.topk : 0);
  p.stream.team->ParallelFor(p.rows, 1, [&](int64_t begin, int64_t end) {
    Slots slots;
    std::vector<float> q(static_cast<size_t>(p.width));
    for (int64_t row = begin; row < end; ++row) {
      slots.keys.assign(static_cast<size_t>(slot_count * p.width), 0.0f);
      slots.used.assign(static_cast<size_t>(slot_count), 0);
      GatherWindow(p, row, &slots);
      if (p.selected_rows != nullptr) GatherSelected(p, row, &slots);
      for (int64_t head = 0; head < p.heads; ++head) AttendHead(p, slots, row, head, &q);
    }
  });
}

}  // namespace thalweg::kernels::reference
