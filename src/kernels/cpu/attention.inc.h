// Sparse attention with a sink over window and selected rows (model.md 2.5). Empty slots are left
// out instead of masked. Probabilities are taken against the maximum of all slots and rounded to
// bf16 before they meet the values, as the published reference rounds wherever 64 slots hold
// everything; the denominator sums them unrounded.
#pragma once

#include "kernels/cpu/linear.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// Decoded rows that neighbouring queries of a sequence share. A row keeps its place while the
// thread works on one sequence; tag = row number + 1, 0 is empty.
struct Memo {
  float* values = nullptr;  // [rows, padded width]
  int64_t* tag = nullptr;   // [rows]
  int64_t rows = 0;         // 0: nothing is shared

  void Forget() const {
    for (int64_t i = 0; i < rows; ++i) tag[i] = 0;
  }
};

// The working memory of one thread in one call.
struct AttentionScratch {
  int64_t padded;       // PaddedWidth(width)
  int64_t logit_width;  // slots rounded up to whole vectors
  Memo window;
  Memo selected;
  float* own;         // [slots, padded]: rows that are not shared
  const float** key;  // [slots]: keys of the current row
  float* query;       // [heads, padded]
  float* logits;      // [heads, logit_width]
  float* angles;      // [2 * rope_dim]
};

Memo MakeMemo(Slot values, Slot tags, int64_t rows, int64_t padded) {
  return {ScratchFloats(values, rows * padded), static_cast<int64_t*>(Scratch(tags, rows * 8)),
          rows};
}

// Memos serve several queries only; the one of selected rows is held to a size that caches like.
AttentionScratch MakeScratch(const AttentionParams& p, int64_t rows) {
  constexpr int64_t kMemoBytes = 1 << 20;
  const int64_t slots = p.window + (p.selected_rows != nullptr ? p.topk : 0);
  AttentionScratch s = {};
  s.padded = PaddedWidth(p.width);
  s.logit_width = (slots + kLanes - 1) / kLanes * kLanes;
  if (rows > 1) {
    s.window = MakeMemo(Slot::kWindowMemo, Slot::kWindowTags, p.window, s.padded);
    s.selected =
        MakeMemo(Slot::kSelectedMemo, Slot::kSelectedTags, kMemoBytes / (4 * s.padded), s.padded);
  }
  s.own = ScratchFloats(Slot::kPrivateKeys, slots * s.padded);
  s.key = static_cast<const float**>(
      Scratch(Slot::kKeyPointers, slots * static_cast<int64_t>(sizeof(float*))));
  s.query = ScratchFloats(Slot::kQuery, p.heads * s.padded);
  s.logits = ScratchFloats(Slot::kLogits, p.heads * s.logit_width);
  s.angles = ScratchFloats(Slot::kAngles, 2 * p.rotation.rope_dim);
  return s;
}

// The decoded row `number` of a sequence: from the memo's place when it has one, else in `own`.
const float* DecodedKey(const Memo& memo, int64_t place, int64_t number, RowFormat format,
                        const uint8_t* encoded, int64_t width, int64_t padded, float* own) {
  const bool shared = place < memo.rows;
  float* values = shared ? memo.values + place * padded : own;
  if (shared && memo.tag[place] == number + 1) return values;
  if (shared) memo.tag[place] = number + 1;
  DecodeCacheRow(format, encoded, width, values);
  return values;
}

const uint8_t* WindowRow(const AttentionParams& p, const WindowKeys& keys, int64_t position) {
  const int64_t row_bytes = tensor::RowBytes(p.window_format, p.width);
  if (position >= keys.chunk_begin) return keys.chunk + (position - keys.chunk_begin) * row_bytes;
  return keys.ring + (position % keys.ring_rows) * row_bytes;
}

const uint8_t* PagedRow(const PagedRows& rows, int64_t row) {
  return rows.pool + rows.blocks[row / rows.rows_per_block] * rows.block_bytes +
         (row % rows.rows_per_block) * rows.row_bytes;
}

// The keys of a row in canonical order, without the empty slots; returns how many.
int64_t GatherKeys(const AttentionParams& p, int64_t row, const AttentionScratch& s) {
  const int32_t sequence = p.row_sequence[row];
  const WindowKeys& window = p.window_keys[sequence];
  const int64_t first = Most(Most(0, p.window_end[row] - p.window + 1), window.floor);
  int64_t count = 0;
  for (int64_t position = first; position <= p.window_end[row]; ++position, ++count) {
    s.key[count] =
        DecodedKey(s.window, position % p.window, position, p.window_format,
                   WindowRow(p, window, position), p.width, s.padded, s.own + count * s.padded);
  }
  if (p.selected_rows == nullptr) return count;
  const PagedRows& rows = p.selected_rows[sequence];
  for (int64_t i = 0; i < p.topk; ++i, ++count) {
    const int64_t entry = p.selection[row * p.topk + i];
    if (entry < 0) break;
    s.key[count] = DecodedKey(s.selected, entry, entry, rows.format, PagedRow(rows, entry), p.width,
                              s.padded, s.own + count * s.padded);
  }
  return count;
}

// logits[h][i] = q_h . key_i for heads [0, heads) of the scratch.
void Logits(const AttentionScratch& s, int64_t heads, int64_t count) {
  for (int64_t i = 0; i < count; i += kTileOuts) {
    ReadF32<kTileOuts> keys;
    for (int o = 0; o < kTileOuts; ++o) keys.row[o] = s.key[Least(i + o, count - 1)];
    for (int64_t h = 0; h < heads; h += kTileRows) {
      const float* q[kTileRows];
      for (int r = 0; r < kTileRows; ++r) q[r] = s.query + Least(h + r, heads - 1) * s.padded;
      F sum[kTileRows * kTileOuts];
      for (F& lane : sum) lane = Zero();
      Tile<kTileRows, kTileOuts>(keys, q, 0, s.padded, sum);
      Finish<kTileRows, kTileOuts>(sum, Least(kTileRows, heads - h), Least(kTileOuts, count - i),
                                   s.logits + h * s.logit_width + i, s.logit_width);
    }
  }
}

// Logits to unnormalised probabilities in place; returns the denominator with the sink in it.
float Softmax(float* logits, int64_t count, float scale, float sink) {
  const F never = Set(-__builtin_inff());
  for (int64_t i = count; i % kLanes != 0; ++i) logits[i] = -__builtin_inff();
  F top = never;
  for (int64_t i = 0; i < count; i += kLanes) {
    const F scaled = Load(logits + i) * Set(scale);
    Store(logits + i, scaled);
    top = Max(scaled, top);
  }
  const F maximum = Set(MaxLanes(top));
  F sum = Zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const F e = Exp(Load(logits + i) - maximum);
    Store(logits + i, RoundToBF16(e));
    sum = sum + e;
  }
  return SumLanes(sum) + Exp1(sink - maximum.part[0][0]);
}

// Channels [c, c + 32) of kHeads heads: sum_i p[h][i] * key_i, in slot order.
template <int kHeads>
TW_INLINE void WeightedKeys(const AttentionScratch& s, const float* probability, int64_t count,
                            int64_t c, F* out) {
  F acc[kHeads * 2];
  for (F& a : acc) a = Zero();
  for (int64_t i = 0; i < count; ++i) {
    const F low = Load(s.key[i] + c);
    const F high = Load(s.key[i] + c + kLanes);
    for (int h = 0; h < kHeads; ++h) {
      const F weight = Set(probability[h * s.logit_width + i]);
      acc[2 * h] = acc[2 * h] + weight * low;
      acc[2 * h + 1] = acc[2 * h + 1] + weight * high;
    }
  }
  for (int i = 0; i < kHeads * 2; ++i) out[i] = acc[i];
}

// out[h] = bf16(sum / denominator) for kHeads heads at `out`, [heads, width].
template <int kHeads>
void Values(const AttentionScratch& s, const float* probability, const float* denominator,
            int64_t count, int64_t width, BF16* out) {
  for (int64_t c = 0; c < width; c += kGroup) {
    F sum[kHeads * 2];
    WeightedKeys<kHeads>(s, probability, count, c, sum);
    for (int h = 0; h < kHeads; ++h) {
      BF16* at = out + h * width + c;
      StoreFirst(at, sum[2 * h] / Set(denominator[h]), width - c);
      if (width - c > kLanes) {
        StoreFirst(at + kLanes, sum[2 * h + 1] / Set(denominator[h]), width - c - kLanes);
      }
    }
  }
}

void AttendHeads(const AttentionParams& p, const AttentionScratch& s, int64_t row, int64_t head,
                 int64_t heads, int64_t count) {
  BF16* query = p.query + (row * p.heads + head) * p.width;
  BF16* out = p.out + (row * p.heads + head) * p.width;
  const Angles forth = SpreadAngles(p.rotation, row, false, s.angles);
  for (int64_t h = 0; h < heads; ++h) {
    Rotate(query + h * p.width, p.width, forth);
    WidenRow(query + h * p.width, p.width, s.query + h * s.padded);
  }
  Logits(s, heads, count);
  constexpr int kHeads = kTileRows;
  float denominator[kHeads];
  for (int64_t h = 0; h < heads; h += kHeads) {
    const int64_t n = Least(kHeads, heads - h);
    float* logits = s.logits + h * s.logit_width;
    for (int64_t i = 0; i < n; ++i) {
      denominator[i] = Softmax(logits + i * s.logit_width, count, p.scale, p.sink[head + h + i]);
    }
    BF16* at = out + h * p.width;
    if (n == kHeads) {
      Values<kHeads>(s, logits, denominator, count, p.width, at);
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      Values<1>(s, logits + i * s.logit_width, denominator + i, count, p.width, at + i * p.width);
    }
  }
  const Angles back = SpreadAngles(p.rotation, row, true, s.angles);
  for (int64_t h = 0; h < heads; ++h) Rotate(out + h * p.width, p.width, back);
}

// Units [begin, end) of rows times head blocks.
void AttendUnits(const AttentionParams& p, int64_t blocks, int64_t begin, int64_t end) {
  const AttentionScratch s = MakeScratch(p, (end - begin) / blocks);
  int32_t sequence = -1;
  int64_t count = 0;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t row = unit / blocks;
    if (p.row_sequence[row] != sequence) {
      sequence = p.row_sequence[row];
      s.window.Forget();
      s.selected.Forget();
    }
    if (unit == begin || unit % blocks == 0) count = GatherKeys(p, row, s);
    const int64_t head = unit % blocks * p.heads / blocks;
    const int64_t heads = (unit % blocks + 1) * p.heads / blocks - head;
    AttendHeads(p, s, row, head, heads, count);
  }
}

// A few rows are split by heads, many by rows alone: keys are decoded once a unit.
void Attention(const AttentionParams& p) {
  constexpr int64_t kHeadsWorthABlock = 8;
  if (p.rows == 0) return;
  const int64_t slots = p.window + (p.selected_rows != nullptr ? p.topk : 0);
  const int64_t work = 2 * slots * p.width * p.heads;  // multiplications of a row
  const int64_t wanted = (p.stream.team->size() + p.rows - 1) / p.rows;
  const int64_t blocks = Most(1, Least(wanted, p.heads / kHeadsWorthABlock));
  p.stream.team->ParallelFor(
      p.rows * blocks, Most(1, kWorkWorthAThread / Most(1, work / blocks)),
      [&](int64_t begin, int64_t end) { AttendUnits(p, blocks, begin, end); });
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
