// Index scores, top-k selection and candidate blocks (model.md 2.5), scores in fp32.
#pragma once

#include "kernels/cpu/attention.inc.h"
#include "kernels/cpu/select.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

constexpr int64_t kKeyBlock = 64;                  // keys decoded at a time
constexpr int64_t kScoreRows = 8;                  // rows that share decoded keys
constexpr int64_t kScoreBytes = int64_t{1} << 26;  // of scores held at a time, where one row fits

// What all threads of one call share.
struct SelectWork {
  const IndexSelectParams& p;
  int64_t padded;  // PaddedWidth(width)
  float* query;    // [rows, heads, padded]
  float* weight;   // [rows, head tiles, kLanes]: of the head of each lane of a tile
  float* score;    // [rows of a group, stride]
  int64_t stride;
  int64_t first;  // row of score[0]
};

bool IsRestricted(const IndexSelectParams& p, int64_t row) {
  return p.restrict_to != nullptr && p.restrict_to->count[row] >= 0;
}

bool NeedsCandidates(const IndexSelectParams& p, int64_t row) {
  const CandidateSets* sets = p.make_candidates;
  return sets != nullptr && p.visible[row] > sets->capacity * sets->block_size;
}

// Everything visible is selected when it fits: then nobody needs scores.
bool NeedsScores(const IndexSelectParams& p, int64_t row) {
  return IsRestricted(p, row) || p.visible[row] > p.topk || NeedsCandidates(p, row);
}

// Entries that a row scores: all visible ones, or those of its blocks side by side.
int64_t ScoredEntries(const IndexSelectParams& p, int64_t row) {
  if (!IsRestricted(p, row)) return p.visible[row];
  const CandidateSets& sets = *p.restrict_to;
  const int64_t count = sets.count[row];
  if (count == 0) return 0;
  const int64_t last = sets.blocks[row * sets.capacity + count - 1] * sets.block_size;
  const int64_t tail = Most(0, Least(sets.block_size, p.visible[row] - last));
  return (count - 1) * sets.block_size + tail;
}

TW_INLINE int64_t EntryOf(const IndexSelectParams& p, int64_t row, int64_t i) {
  if (!IsRestricted(p, row)) return i;
  const CandidateSets& sets = *p.restrict_to;
  return sets.blocks[row * sets.capacity + i / sets.block_size] * sets.block_size +
         i % sets.block_size;
}

TW_INLINE int64_t HeadTiles(int64_t heads) { return (heads + kTileRows - 1) / kTileRows; }

// The weight of head r at the lanes r * kTileOuts + o of its tile; nothing elsewhere.
void SpreadWeights(const BF16* weight, int64_t heads, float* out) {
  for (int64_t i = 0; i < HeadTiles(heads) * kLanes; ++i) out[i] = 0;
  for (int64_t h = 0; h < heads; ++h) {
    float* tile = out + h / kTileRows * kLanes + h % kTileRows * kTileOuts;
    for (int o = 0; o < kTileOuts; ++o) tile[o] = ValueOf(weight[h]);
  }
}

// Rotates and quantises the queries of a row, scales and rounds its head weights.
void PrepareQuery(const SelectWork& work, int64_t row) {
  const IndexSelectParams& p = work.p;
  float* angles = ScratchFloats(Slot::kAngles, 2 * p.rotation.rope_dim);
  const Angles forth = SpreadAngles(p.rotation, row, false, angles);
  for (int64_t h = 0; h < p.heads; ++h) {
    BF16* q = p.query + (row * p.heads + h) * p.width;
    Rotate(q, p.width, forth);
    tensor::RoundTripRow(p.query_format, q, p.width, q);
    WidenRow(q, p.width, work.query + (row * p.heads + h) * work.padded);
  }
  for (int64_t h = 0; h < p.heads; h += kLanes) {
    BF16* w = p.head_weight + row * p.heads + h;
    const F scaled = LoadFirst(w, p.heads - h) * Set(p.weight_scale);
    StoreFirst(w, scaled, p.heads - h);
  }
  SpreadWeights(p.head_weight + row * p.heads, p.heads,
                work.weight + row * HeadTiles(p.heads) * kLanes);
}

// total[o] += relu(dot) * weight over the heads of a tile in ascending order.
TW_INLINE void AddHeads(F dots, F weights, float* total) {
  const F part = IfLess(Zero(), dots, dots, Zero()) * weights;
  if constexpr (kTileRows * kTileOuts == kLanes) {
    const F sum = ((Load(total) + Row<0>(part)) + Row<1>(part)) + Row<2>(part);
    Store(total, sum + Row<3>(part));
  } else {
    float lane[kLanes];
    Store(lane, part);
    for (int i = 0; i < kTileRows * kTileOuts; ++i) total[i % kTileOuts] += lane[i];
  }
}

// score[o] = sum_h relu(q_h . key_o) w_h, heads in ascending order, for up to kTileOuts keys.
void ScoreTile(const SelectWork& work, int64_t row, const ReadF32<kTileOuts>& keys, int64_t outs,
               float* score) {
  const int64_t heads = work.p.heads;
  const float* query = work.query + row * heads * work.padded;
  const float* weight = work.weight + row * HeadTiles(heads) * kLanes;
  float total[kLanes] = {};
  for (int64_t h = 0; h < heads; h += kTileRows, weight += kLanes) {
    const float* q[kTileRows];
    for (int r = 0; r < kTileRows; ++r) q[r] = query + Least(h + r, heads - 1) * work.padded;
    F sum[kTileRows * kTileOuts];
    for (F& lane : sum) lane = Zero();
    Tile<kTileRows, kTileOuts>(keys, q, 0, work.padded, sum);
    AddHeads(SumLanes<kTileRows * kTileOuts>(sum), Load(weight), total);
  }
  for (int64_t o = 0; o < outs; ++o) score[o] = total[o];
}

// Scores of a row for `count` decoded keys.
void ScoreBlock(const SelectWork& work, int64_t row, const float* keys, int64_t count,
                float* score) {
  for (int64_t i = 0; i < count; i += kTileOuts) {
    ReadF32<kTileOuts> reader;
    for (int o = 0; o < kTileOuts; ++o) {
      reader.row[o] = keys + Least(i + o, count - 1) * work.padded;
    }
    ScoreTile(work, row, reader, Least(kTileOuts, count - i), score + i);
  }
}

// Decodes entries [begin, end) of what `row` scores.
void DecodeKeys(const SelectWork& work, int64_t row, int64_t begin, int64_t end, float* keys) {
  const PagedRows& rows = work.p.keys[work.p.row_sequence[row]];
  for (int64_t i = begin; i < end; ++i) {
    DecodeCacheRow(rows.format, PagedRow(rows, EntryOf(work.p, row, i)), work.p.width,
                   keys + (i - begin) * work.padded);
  }
}

// Whether two neighbouring rows can use the same decoded keys.
bool SharesKeys(const IndexSelectParams& p, int64_t a, int64_t b) {
  return p.row_sequence[a] == p.row_sequence[b] && !IsRestricted(p, a) && !IsRestricted(p, b);
}

// Key block `block` for rows [begin, end): keys are decoded once for neighbours that share them.
void ScoreUnit(const SelectWork& work, int64_t begin, int64_t end, int64_t block) {
  const IndexSelectParams& p = work.p;
  float* keys = ScratchFloats(Slot::kPrivateKeys, kKeyBlock * work.padded);
  const int64_t from = block * kKeyBlock;
  int64_t decoded_row = -1;
  int64_t decoded = 0;  // keys of decoded_row from `from` on
  for (int64_t row = begin; row < end; ++row) {
    if (!NeedsScores(p, row)) continue;
    const int64_t count = Least(kKeyBlock, ScoredEntries(p, row) - from);
    if (count <= 0) continue;
    const bool shared = decoded_row >= 0 && SharesKeys(p, decoded_row, row);
    const int64_t have = shared ? decoded : 0;
    if (have < count) DecodeKeys(work, row, from + have, from + count, keys + have * work.padded);
    decoded = Most(have, count);
    decoded_row = row;
    ScoreBlock(work, row, keys, count, work.score + (row - work.first) * work.stride + from);
  }
}

void SelectRow(const SelectWork& work, int64_t row) {
  const IndexSelectParams& p = work.p;
  int32_t* out = p.selection + row * p.topk;
  const float* score = work.score + (row - work.first) * work.stride;
  if (p.make_candidates != nullptr) {
    CandidateSets& sets = *p.make_candidates;
    sets.count[row] = NeedsCandidates(p, row)
                          ? SelectBlocks(score, p.visible[row], sets.block_size, sets.capacity,
                                         sets.blocks + row * sets.capacity)
                          : -1;
  }
  int64_t chosen = 0;
  if (NeedsScores(p, row)) {
    chosen = SelectBest(score, ScoredEntries(p, row), p.topk, out);
    for (int64_t i = 0; i < chosen; ++i) out[i] = static_cast<int32_t>(EntryOf(p, row, out[i]));
  } else {
    for (; chosen < p.visible[row]; ++chosen) out[chosen] = static_cast<int32_t>(chosen);
  }
  for (int64_t i = chosen; i < p.topk; ++i) out[i] = -1;
}

// Scores, then chooses for rows [first, first + rows).
void SelectGroup(SelectWork* work, int64_t first, int64_t rows, int64_t entries) {
  const IndexSelectParams& p = work->p;
  work->first = first;
  work->stride = entries;
  work->score = ScratchFloats(Slot::kScores, rows * entries);
  const int64_t key_blocks = (entries + kKeyBlock - 1) / kKeyBlock;
  const int64_t row_blocks = (rows + kScoreRows - 1) / kScoreRows;
  const int64_t unit_work = Least(rows, kScoreRows) * p.heads * p.width * kKeyBlock;
  p.stream.team->ParallelFor(
      row_blocks * key_blocks, Most(1, kWorkWorthAThread / Most(1, unit_work)),
      [&](int64_t begin, int64_t end) {
        for (int64_t unit = begin; unit < end; ++unit) {
          const int64_t row = first + unit / key_blocks * kScoreRows;
          ScoreUnit(*work, row, Least(row + kScoreRows, first + rows), unit % key_blocks);
        }
      });
  p.stream.team->ParallelFor(rows, Most(1, (1 << 14) / Most(1, entries)),
                             [&](int64_t begin, int64_t end) {
                               for (int64_t r = begin; r < end; ++r) SelectRow(*work, first + r);
                             });
}

void IndexSelect(const IndexSelectParams& p) {
  if (p.rows == 0) return;
  const int64_t padded = PaddedWidth(p.width);
  SelectWork work = {p,
                     padded,
                     ScratchFloats(Slot::kQuery, p.rows * p.heads * padded),
                     ScratchFloats(Slot::kMix, p.rows * HeadTiles(p.heads) * kLanes),
                     nullptr,
                     0,
                     0};
  p.stream.team->ParallelFor(p.rows, Most(1, (1 << 12) / (p.heads * p.width)),
                             [&](int64_t begin, int64_t end) {
                               for (int64_t r = begin; r < end; ++r) PrepareQuery(work, r);
                             });
  int64_t entries = 0;
  for (int64_t r = 0; r < p.rows; ++r) {
    if (NeedsScores(p, r)) entries = Most(entries, ScoredEntries(p, r));
  }
  const int64_t group = Most(kScoreRows, kScoreBytes / (4 * Most(1, entries)));
  for (int64_t first = 0; first < p.rows; first += group) {
    SelectGroup(&work, first, Least(group, p.rows - first), entries);
  }
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
