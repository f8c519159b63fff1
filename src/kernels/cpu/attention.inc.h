// Sparse attention with a sink over window and selected rows (model.md 2.5). Empty slots are left
// out instead of masked. Probabilities are taken against the maximum of all slots and rounded to
// bf16 before they meet the values, as the published reference rounds wherever 64 slots hold
// everything; the denominator sums them unrounded.
//
// Cache rows are decoded to bf16, which holds them exactly. Lanes are heads while queries meet keys
// and while the softmax runs; they are channels while probabilities meet values.
#pragma once

#include "kernels/cpu/dot.inc.h"
#include "kernels/cpu/linear.inc.h"
#include "kernels/cpu/transpose.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// Keys whose products are summed at a time, and heads whose outputs are: what the registers hold.
#if defined(__AVX512F__)
constexpr int64_t kTileKeys = 8, kTileHeads = 8;
#elif defined(__AVX2__)
constexpr int64_t kTileKeys = 4, kTileHeads = 2;
#else
constexpr int64_t kTileKeys = 2, kTileHeads = 1;
#endif
constexpr int64_t kKeyGroup = 16;  // keys decoded at a time

// Decoded window rows that neighbouring queries of a sequence share. A row keeps its place while
// the thread works on one sequence; tag = position + 1, 0 is empty.
struct WindowMemo {
  uint32_t* words = nullptr;  // [window, pairs]
  int64_t* tag = nullptr;     // [window]
  int64_t rows = 0;           // 0: nothing is shared

  void Forget() const {
    for (int64_t i = 0; i < rows; ++i) tag[i] = 0;
  }
};

// The working memory of one thread in one call. Rows of bf16 are read as pairs of columns, so that
// `pairs` words make a row.
struct AttentionScratch {
  int64_t pairs;  // PaddedWidth(width) / 2
  int64_t slots;  // keys of a row at most, in whole groups
  WindowMemo window;
  const uint8_t** coded;  // [slots]: where the keys of the current row lie
  uint32_t* own;          // [kKeyGroup, pairs]: keys that are not shared
  uint32_t* query;        // [head vectors, pairs, kLanes]
  float* logits;          // [head vectors, slots, kLanes]
  uint32_t* probability;  // [slots / 2, kLanes]: pairs of slots, of one head vector
  uint32_t* values;       // [padded width / 32, slots / 2 + 1, 32]: pairs of slots of each channel
  float* angles;          // [2 * rope_dim]

  uint32_t* Slab(int64_t i) const { return values + i * (slots / 2 + 1) * kGroup; }
};

AttentionScratch MakeScratch(const AttentionParams& p, int64_t rows, int64_t vectors) {
  const auto words = [](Slot slot, int64_t n) {
    return static_cast<uint32_t*>(Scratch(slot, n * 4));
  };
  AttentionScratch s = {};
  s.pairs = PaddedWidth(p.width) / 2;
  const int64_t most = p.window + (p.selected_rows != nullptr ? p.topk : 0);
  s.slots = (most + kKeyGroup - 1) / kKeyGroup * kKeyGroup;
  if (rows > 1) {
    s.window = {words(Slot::kWindowMemo, p.window * s.pairs),
                static_cast<int64_t*>(Scratch(Slot::kWindowTags, p.window * 8)), p.window};
  }
  s.coded = static_cast<const uint8_t**>(
      Scratch(Slot::kKeyPointers, s.slots * static_cast<int64_t>(sizeof(uint8_t*))));
  s.own = words(Slot::kPrivateKeys, kKeyGroup * s.pairs);
  s.query = words(Slot::kQuery, vectors * s.pairs * kLanes);
  s.logits = ScratchFloats(Slot::kLogits, vectors * s.slots * kLanes);
  s.probability = words(Slot::kProbability, s.slots / 2 * kLanes);
  s.values = words(Slot::kValues, s.pairs * 2 * (s.slots / 2 + 1));
  s.angles = ScratchFloats(Slot::kAngles, 2 * p.rotation.rope_dim);
  return s;
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

// The keys of a row in canonical order, without the empty slots.
struct RowKeys {
  int64_t first;   // position of the first window key
  int64_t window;  // window keys
  int64_t count;   // and selected ones behind them
  RowFormat selected_format;
};

RowKeys FindKeys(const AttentionParams& p, int64_t row, const AttentionScratch& s) {
  const int32_t sequence = p.row_sequence[row];
  const WindowKeys& window = p.window_keys[sequence];
  RowKeys keys = {};
  keys.first = Most(Most(0, p.window_end[row] - p.window + 1), window.floor);
  keys.window = Most(0, p.window_end[row] - keys.first + 1);
  for (int64_t i = 0; i < keys.window; ++i) s.coded[i] = WindowRow(p, window, keys.first + i);
  keys.count = keys.window;
  if (p.selected_rows == nullptr) return keys;
  const PagedRows& rows = p.selected_rows[sequence];
  keys.selected_format = rows.format;
  const int32_t* selection = p.selection + row * p.topk;
  for (int64_t i = 0; i < p.topk && selection[i] >= 0; ++i) {
    s.coded[keys.count++] = PagedRow(rows, selection[i]);
  }
  return keys;
}

// Key i of the row, decoded: from the memo's place when it has one, else in `own`.
const uint32_t* DecodedKey(const AttentionParams& p, const AttentionScratch& s, const RowKeys& keys,
                           int64_t i, uint32_t* own) {
  if (i >= keys.window) {
    DecodeCacheRow(keys.selected_format, s.coded[i], p.width, reinterpret_cast<BF16*>(own));
    return own;
  }
  const int64_t position = keys.first + i, place = position % p.window;
  const bool shared = s.window.rows > 0;
  uint32_t* words = shared ? s.window.words + place * s.pairs : own;
  if (shared && s.window.tag[place] == position + 1) return words;
  if (shared) s.window.tag[place] = position + 1;
  DecodeCacheRow(p.window_format, s.coded[i], p.width, reinterpret_cast<BF16*>(words));
  return words;
}

// logits[i] = the products of sixteen heads with key i.
TW_INLINE void DotKeys(const uint32_t* query, const uint32_t* const* key, int64_t pairs,
                       float* logits) {
  F sum[kTileKeys];
  for (F& lanes : sum) lanes = Zero();
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const U q = LoadU(query + pair * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kTileKeys; ++i) sum[i] = DotBF16(sum[i], q, SetU(key[i][pair]));
  }
  for (int i = 0; i < kTileKeys; ++i) Store(logits + i * kLanes, sum[i]);
}

// Two keys side by side as pairs of slots, pair number `at`.
void PairValues(const AttentionScratch& s, const uint32_t* even, const uint32_t* odd, int64_t at) {
  const auto* a = reinterpret_cast<const BF16*>(even);
  const auto* b = reinterpret_cast<const BF16*>(odd);
  for (int64_t c = 0; c < s.pairs * 2; c += kLanes) {
    const U pair = Bits(LoadBF16(b + c)) | (Bits(LoadBF16(a + c)) >> 16);
    StoreU(s.Slab(c / kGroup) + at * kGroup + c % kGroup, pair);
  }
}

// Decodes the keys [begin, begin + count) of a row, count <= kKeyGroup: logits of `vectors` head
// vectors, and the values in pairs.
void MeetKeys(const AttentionParams& p, const AttentionScratch& s, const RowKeys& keys,
              int64_t begin, int64_t count, int64_t vectors) {
  const uint32_t* key[kKeyGroup];
  for (int64_t i = 0; i < kKeyGroup; ++i) {
    key[i] = i < count ? DecodedKey(p, s, keys, begin + i, s.own + i * s.pairs) : key[i - 1];
  }
  for (int64_t v = 0; v < vectors; ++v) {
    for (int64_t i = 0; i < count; i += kTileKeys) {
      DotKeys(s.query + v * s.pairs * kLanes, key + i, s.pairs,
              s.logits + (v * s.slots + begin + i) * kLanes);
    }
  }
  for (int64_t i = 0; i < count; i += 2) {
    PairValues(s, key[i], key[i + 1], (begin + i) / 2);
  }
}

// Logits of sixteen heads to unnormalised probabilities in pairs of slots; the reciprocal of the
// denominator with the sink in it.
F Softmax(const AttentionScratch& s, float* logits, int64_t count, float scale, F sink) {
  F top = Set(-__builtin_inff());
  for (int64_t i = 0; i < count; ++i) {
    const F scaled = Load(logits + i * kLanes) * Set(scale);
    Store(logits + i * kLanes, scaled);
    top = Max(scaled, top);
  }
  F sum = Zero();
  for (int64_t i = 0; i < count; i += 2) {
    const F even = ExpOfNegative(Load(logits + i * kLanes) - top);
    F odd = Zero();
    if (i + 1 < count) odd = ExpOfNegative(Load(logits + (i + 1) * kLanes) - top);
    sum = (sum + even) + odd;
    StoreU(s.probability + i / 2 * kLanes, (BF16Bits(odd) << 16) | BF16Bits(even));
  }
  return Set(1.0f) / (sum + Exp(sink - top));
}

// Channels [0, 32) of a slab for kTileHeads heads: sum_i p[i][h] * value_i, in slot order.
TW_INLINE void WeightedValues(const uint32_t* probability, const uint32_t* values, int64_t pairs,
                              F* sum) {
  F low[kTileHeads], high[kTileHeads];
  for (int h = 0; h < kTileHeads; ++h) low[h] = high[h] = Zero();
  for (int64_t i = 0; i < pairs; ++i) {
    const U a = LoadU(values + i * kGroup);
    const U b = LoadU(values + i * kGroup + kLanes);
#pragma GCC unroll 8
    for (int h = 0; h < kTileHeads; ++h) {
      const U weight = SetU(probability[i * kLanes + h]);
      low[h] = DotBF16(low[h], weight, a);
      high[h] = DotBF16(high[h], weight, b);
    }
  }
  for (int h = 0; h < kTileHeads; ++h) {
    sum[2 * h] = low[h];
    sum[2 * h + 1] = high[h];
  }
}

// out[h] = bf16(sum * inverse[h]) for the first `heads` of sixteen heads; `out` is [heads, width].
void PutValues(const AttentionScratch& s, const float* inverse, int64_t heads, int64_t count,
               int64_t width, BF16* out) {
  for (int64_t c = 0; c < width; c += kGroup) {
    for (int64_t first = 0; first < heads; first += kTileHeads) {
      F sum[kTileHeads * 2];
      WeightedValues(s.probability + first, s.Slab(c / kGroup), (count + 1) / 2, sum);
      for (int64_t i = 0; i < Least(kTileHeads, heads - first); ++i) {
        BF16* at = out + (first + i) * width + c;
        const F by = Set(inverse[first + i]);
        StoreFirst(at, sum[2 * i] * by, width - c);
        if (width - c > kLanes) StoreFirst(at + kLanes, sum[2 * i + 1] * by, width - c - kLanes);
      }
    }
  }
}

// Words [pair, pair + 16) of a query of 2 * pair columns and more, zero behind its width.
TW_INLINE F QueryWords(const BF16* query, int64_t width, int64_t pair) {
  const int64_t left = width - 2 * pair;
  if (left >= 2 * kLanes) return FromBits(LoadU(query + 2 * pair));
  uint16_t padded[2 * kLanes] = {};
  if (left > 0) __builtin_memcpy(padded, query + 2 * pair, static_cast<size_t>(left) * 2);
  return FromBits(LoadU(padded));
}

// Sixteen queries from `query` on, lanes behind the last one zero.
void SpreadQueries(const BF16* query, int64_t heads, int64_t width, int64_t pairs, uint32_t* out) {
  for (int64_t pair = 0; pair < pairs; pair += kLanes) {
    F words[kLanes];
    for (int64_t h = 0; h < kLanes; ++h) {
      words[h] = h < heads ? QueryWords(query + h * width, width, pair) : Zero();
    }
    Transpose16(words);
    for (int i = 0; i < kLanes; ++i) StoreU(out + (pair + i) * kLanes, Bits(words[i]));
  }
}

// Heads [head, head + heads) of a row.
void AttendHeads(const AttentionParams& p, const AttentionScratch& s, int64_t row, int64_t head,
                 int64_t heads) {
  const int64_t at = (row * p.heads + head) * p.width;
  const int64_t vectors = (heads + kLanes - 1) / kLanes;
  const Angles forth = SpreadAngles(p.rotation, row, false, s.angles);
  for (int64_t h = 0; h < heads; ++h) Rotate(p.query + at + h * p.width, p.width, forth);
  for (int64_t v = 0; v < vectors; ++v) {
    SpreadQueries(p.query + at + v * kLanes * p.width, heads - v * kLanes, p.width, s.pairs,
                  s.query + v * s.pairs * kLanes);
  }
  const RowKeys keys = FindKeys(p, row, s);
  for (int64_t i = 0; i < keys.count; i += kKeyGroup) {
    MeetKeys(p, s, keys, i, Least(kKeyGroup, keys.count - i), vectors);
  }
  for (int64_t v = 0; v < vectors; ++v) {
    const int64_t first = v * kLanes;
    const F sink = LoadFirst(p.sink + head + first, heads - first);
    float inverse[kLanes];
    Store(inverse, Softmax(s, s.logits + first * s.slots, keys.count, p.scale, sink));
    PutValues(s, inverse, Least(kLanes, heads - first), keys.count, p.width,
              p.out + at + first * p.width);
  }
  const Angles back = SpreadAngles(p.rotation, row, true, s.angles);
  for (int64_t h = 0; h < heads; ++h) Rotate(p.out + at + h * p.width, p.width, back);
}

// Units [begin, end) of rows times blocks of head vectors.
void AttendUnits(const AttentionParams& p, int64_t blocks, int64_t begin, int64_t end) {
  const int64_t vectors = (p.heads + kLanes - 1) / kLanes;
  const AttentionScratch s =
      MakeScratch(p, (end - begin + blocks - 1) / blocks, (vectors + blocks - 1) / blocks);
  int32_t sequence = -1;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t row = unit / blocks, block = unit % blocks;
    if (p.row_sequence[row] != sequence) s.window.Forget();
    sequence = p.row_sequence[row];
    const int64_t head = block * vectors / blocks * kLanes;
    const int64_t heads = Least((block + 1) * vectors / blocks * kLanes, p.heads) - head;
    AttendHeads(p, s, row, head, heads);
  }
}

// Rows that do not keep all threads busy are split by heads; each part decodes the keys again.
void Attention(const AttentionParams& p) {
  if (p.rows == 0) return;
  const int64_t slots = p.window + (p.selected_rows != nullptr ? p.topk : 0);
  const int64_t work = 2 * slots * p.width * p.heads;  // multiplications of a row
  const int64_t threads = p.stream.team->size(), vectors = (p.heads + kLanes - 1) / kLanes;
  const bool enough = p.rows % threads == 0 || p.rows >= 4 * threads;
  const int64_t blocks = enough ? 1 : Least(threads, vectors);
  p.stream.team->ParallelFor(
      p.rows * blocks, Most(1, kWorkWorthAThread / Most(1, work / blocks)),
      [&](int64_t begin, int64_t end) { AttendUnits(p, blocks, begin, end); });
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
