// Sparse attention with a sink over window and selected rows (model.md 2.5). Empty slots are left
// out instead of masked. Probabilities are taken against the maximum of all slots and rounded to
// bf16 before they meet the values, as the published reference rounds wherever 64 slots hold
// everything; the denominator sums them unrounded.
//
// Cache rows are decoded to bf16, which holds them exactly. Lanes are keys while queries meet keys
// and while the softmax runs; they are channels while probabilities meet values.
#pragma once

#include "kernels/cpu/dot.inc.h"
#include "kernels/cpu/heads.inc.h"
#include "kernels/cpu/linear.inc.h"
#include "kernels/cpu/transpose.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// Heads whose logits and whose outputs are summed at a time: what the registers hold.
#if defined(__AVX512F__)
constexpr int kLogitHeads = 8, kOutputHeads = 8;
#elif defined(__AVX2__)
constexpr int kLogitHeads = 4, kOutputHeads = 2;
#else
constexpr int kLogitHeads = 2, kOutputHeads = 1;
#endif

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
  int64_t slots;  // keys of a row at most, in whole vectors
  WindowMemo window;
  const uint8_t** coded;  // [slots]: where the keys of the current row lie
  uint32_t* own;          // [kLanes, pairs]: keys that are not shared
  uint32_t* turned;       // [pairs, kLanes]: sixteen keys
  uint32_t* query;        // [heads, pairs]
  float* logits;          // [heads, slots]
  uint32_t* probability;  // [heads, slots / 2]: pairs of slots
  uint32_t* values;       // [padded width / 32, slots / 2 + 1, 32]: pairs of slots of each channel
  float* angles;          // [2 * rope_dim]

  uint32_t* Slab(int64_t i) const { return values + i * (slots / 2 + 1) * kGroup; }
};

AttentionScratch MakeScratch(const AttentionParams& p, int64_t rows, int64_t heads) {
  const auto words = [](Slot slot, int64_t n) {
    return static_cast<uint32_t*>(Scratch(slot, n * 4));
  };
  AttentionScratch s = {};
  s.pairs = PaddedWidth(p.width) / 2;
  const int64_t most = p.window + (p.selected_rows != nullptr ? p.topk : 0);
  s.slots = (most + kLanes - 1) / kLanes * kLanes;
  if (rows > 1) {
    s.window = {words(Slot::kWindowMemo, p.window * s.pairs),
                static_cast<int64_t*>(Scratch(Slot::kWindowTags, p.window * 8)), p.window};
  }
  s.coded = static_cast<const uint8_t**>(
      Scratch(Slot::kKeyPointers, s.slots * static_cast<int64_t>(sizeof(uint8_t*))));
  s.own = words(Slot::kPrivateKeys, 2 * kLanes * s.pairs);
  s.turned = s.own + kLanes * s.pairs;
  s.query = words(Slot::kQuery, heads * s.pairs);
  s.logits = ScratchFloats(Slot::kLogits, heads * s.slots);
  s.probability = words(Slot::kProbability, heads * s.slots / 2);
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

// Words of sixteen keys, each beside those of the other keys.
void TurnKeys(const uint32_t* const* key, int64_t pairs, uint32_t* turned) {
  for (int64_t pair = 0; pair < pairs; pair += kLanes) {
    F words[kLanes];
    for (int i = 0; i < kLanes; ++i) words[i] = FromBits(LoadU(key[i] + pair));
    Transpose16(words);
    for (int i = 0; i < kLanes; ++i) StoreU(turned + (pair + i) * kLanes, Bits(words[i]));
  }
}

// logits[h][0..16) = query h . sixteen keys, summed over pairs of columns in ascending order.
template <int kHeads>
TW_INLINE void DotKeys(const AttentionScratch& s, int64_t head, float* logits) {
  const uint32_t* query = s.query + head * s.pairs;
  F sum[kHeads];
  for (F& lanes : sum) lanes = Zero();
  for (int64_t pair = 0; pair < s.pairs; ++pair) {
    const U keys = LoadU(s.turned + pair * kLanes);
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      sum[h] = DotBF16(sum[h], keys, SetU(query[h * s.pairs + pair]));
    }
  }
  for (int h = 0; h < kHeads; ++h) Store(logits + (head + h) * s.slots, sum[h]);
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

// Asks for the keys [begin, begin + kLanes) of a row: selected rows lie anywhere in memory, and
// arrive while the keys before them are met.
void FetchKeys(const AttentionParams& p, const AttentionScratch& s, const RowKeys& keys,
               int64_t begin) {
  constexpr int64_t kLineBytes = 64;
  for (int64_t i = begin; i < Least(begin + kLanes, keys.count); ++i) {
    const RowFormat format = i < keys.window ? p.window_format : keys.selected_format;
    const int64_t bytes = tensor::RowBytes(format, p.width);
    for (int64_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(s.coded[i] + at);
  }
}

// Decodes the keys [begin, begin + count) of a row, count <= kLanes: logits of `heads` heads, and
// the values in pairs.
void MeetKeys(const AttentionParams& p, const AttentionScratch& s, const RowKeys& keys,
              int64_t begin, int64_t count, int64_t heads) {
  const uint32_t* key[kLanes];
  FetchKeys(p, s, keys, begin + kLanes);
  for (int64_t i = 0; i < kLanes; ++i) {
    key[i] = i < count ? DecodedKey(p, s, keys, begin + i, s.own + i * s.pairs) : key[i - 1];
  }
  TurnKeys(key, s.pairs, s.turned);
  ForHeads<kLogitHeads>(0, heads,
                        [&](auto tile, int64_t head) { DotKeys<tile>(s, head, s.logits + begin); });
  for (int64_t i = 0; i < count; i += 2) PairValues(s, key[i], key[i + 1], (begin + i) / 2);
}

// Logits of a head to unnormalised probabilities in bf16; the reciprocal of the denominator with
// the sink in it.
float Softmax(float* logits, int64_t count, float scale, float sink, BF16* probability) {
  for (int64_t i = count; i % kLanes != 0; ++i) logits[i] = -__builtin_inff();
  F top = Set(-__builtin_inff());
  for (int64_t i = 0; i < count; i += kLanes) {
    const F scaled = Load(logits + i) * Set(scale);
    Store(logits + i, scaled);
    top = Max(scaled, top);
  }
  const float maximum = MaxLanes(top);
  F sum = Zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const F e = ExpOfNegative(Load(logits + i) - Set(maximum));
    StoreBF16(probability + i, e);
    sum = sum + e;
  }
  return 1.0f / (SumLanes(sum) + Exp1(sink - maximum));
}

// Channels [0, 32) of a slab for kHeads heads: sum_i p[h][i] * value_i, in pairs of slots.
template <int kHeads>
TW_INLINE void WeightedValues(const uint32_t* probability, int64_t stride, const uint32_t* values,
                              int64_t pairs, F* sum) {
  F low[kHeads], high[kHeads];
  for (int h = 0; h < kHeads; ++h) low[h] = high[h] = Zero();
  for (int64_t i = 0; i < pairs; ++i) {
    const U a = LoadU(values + i * kGroup);
    const U b = LoadU(values + i * kGroup + kLanes);
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const U weight = SetU(probability[h * stride + i]);
      low[h] = DotBF16(low[h], weight, a);
      high[h] = DotBF16(high[h], weight, b);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    sum[2 * h] = low[h];
    sum[2 * h + 1] = high[h];
  }
}

// out[h] = bf16(sum * inverse[h]); `out` is [heads, width].
void PutValues(const AttentionScratch& s, const float* inverse, int64_t heads, int64_t count,
               int64_t width, BF16* out) {
  for (int64_t c = 0; c < width; c += kGroup) {
    ForHeads<kOutputHeads>(0, heads, [&](auto tile, int64_t first) {
      F sum[tile * 2];
      WeightedValues<tile>(s.probability + first * (s.slots / 2), s.slots / 2, s.Slab(c / kGroup),
                           (count + 1) / 2, sum);
      for (int64_t i = 0; i < tile; ++i) {
        BF16* at = out + (first + i) * width + c;
        const F by = Set(inverse[first + i]);
        StoreFirst(at, sum[2 * i] * by, width - c);
        if (width - c > kLanes) StoreFirst(at + kLanes, sum[2 * i + 1] * by, width - c - kLanes);
      }
    });
  }
}

// A rotated query as words, zero behind its width.
void PutQuery(const BF16* query, int64_t width, int64_t pairs, uint32_t* out) {
  auto* values = reinterpret_cast<BF16*>(out);
  for (int64_t c = 0; c < 2 * pairs; c += kLanes) {
    StoreExact(values + c, c < width ? LoadFirst(query + c, width - c) : Zero());
  }
}

// Heads [head, head + heads) of a row.
void AttendHeads(const AttentionParams& p, const AttentionScratch& s, int64_t row, int64_t head,
                 int64_t heads) {
  const int64_t at = (row * p.heads + head) * p.width;
  const RowKeys keys = FindKeys(p, row, s);
  FetchKeys(p, s, keys, 0);
  const Angles forth = SpreadAngles(p.rotation, row, false, s.angles);
  for (int64_t h = 0; h < heads; ++h) {
    Rotate(p.query + at + h * p.width, p.width, forth);
    PutQuery(p.query + at + h * p.width, p.width, s.pairs, s.query + h * s.pairs);
  }
  for (int64_t i = 0; i < keys.count; i += kLanes) {
    MeetKeys(p, s, keys, i, Least(kLanes, keys.count - i), heads);
  }
  float* inverse = ScratchFloats(Slot::kSum, heads);
  for (int64_t h = 0; h < heads; ++h) {
    inverse[h] = Softmax(s.logits + h * s.slots, keys.count, p.scale, p.sink[head + h],
                         reinterpret_cast<BF16*>(s.probability + h * (s.slots / 2)));
  }
  PutValues(s, inverse, heads, keys.count, p.width, p.out + at);
  const Angles back = SpreadAngles(p.rotation, row, true, s.angles);
  for (int64_t h = 0; h < heads; ++h) Rotate(p.out + at + h * p.width, p.width, back);
}

// Units [begin, end) of rows times blocks of heads.
void AttendUnits(const AttentionParams& p, int64_t blocks, int64_t begin, int64_t end) {
  const AttentionScratch s = MakeScratch(p, (end - begin + blocks - 1) / blocks, p.heads);
  int32_t sequence = -1;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t row = unit / blocks, block = unit % blocks;
    if (p.row_sequence[row] != sequence) s.window.Forget();
    sequence = p.row_sequence[row];
    const int64_t head = block * p.heads / blocks;
    AttendHeads(p, s, row, head, (block + 1) * p.heads / blocks - head);
  }
}

// Neighbouring rows of one sequence, on average: they share decoded keys, so that a thread takes
// them together.
int64_t RowsOfASequence(const AttentionParams& p) {
  int64_t sequences = 1;
  for (int64_t r = 1; r < p.rows; ++r) sequences += p.row_sequence[r] != p.row_sequence[r - 1];
  return p.rows / sequences;
}

// Rows that do not keep all threads busy are split by heads; each part decodes the keys again.
void Attention(const AttentionParams& p) {
  constexpr int64_t kHeadsWorthABlock = 8;
  if (p.rows == 0) return;
  const int64_t slots = p.window + (p.selected_rows != nullptr ? p.topk : 0);
  const int64_t work = 2 * slots * p.width * p.heads;  // multiplications of a row
  const int64_t threads = p.stream.team->size();
  const bool enough = p.rows % threads == 0 || p.rows >= 4 * threads;
  const int64_t blocks = enough ? 1 : Most(1, Least(threads, p.heads / kHeadsWorthABlock));
  const int64_t units = p.rows * blocks;
  const int64_t together = Least(RowsOfASequence(p) * blocks, Most(1, units / threads));
  p.stream.team->ParallelFor(
      units, Most(together, kWorkWorthAThread / Most(1, work / blocks)),
      [&](int64_t begin, int64_t end) { AttendUnits(p, blocks, begin, end); });
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
