// Index scores over everything visible, top-k and candidate blocks (model.md 2.5). Scores go into
// the lists of the best as they are made; nothing holds all of them.
#pragma once

#include "kernels/cpu/attention.inc.h"
#include "kernels/cpu/index_score.inc.h"
#include "kernels/cpu/select.inc.h"
#include "kernels/reference/bodies.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

constexpr int64_t kScoreRows = 8;       // rows that share unpacked keys
constexpr int64_t kScoreEntries = 64;   // entries scored before the next row has its turn
constexpr int64_t kPartEntries = 1024;  // of a row that are worth a part of their own

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
  if (!NeedsScores(p, row)) return 0;
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

// Where the keys of entries [begin, begin + n) of what `row` scores lie.
void FindIndexKeys(const IndexSelectParams& p, int64_t row, int64_t begin, int64_t n,
                   const uint8_t** key) {
  const PagedRows& rows = p.keys[p.row_sequence[row]];
  const int64_t piece = IsRestricted(p, row) ? p.restrict_to->block_size : rows.rows_per_block;
  for (int64_t i = 0; i < n;) {
    const int64_t entry = EntryOf(p, row, begin + i);
    const int64_t in_page = rows.rows_per_block - entry % rows.rows_per_block;
    const int64_t run = Least(n - i, Least(in_page, piece - (begin + i) % piece));
    const uint8_t* first = PagedRow(rows, entry);
    for (int64_t j = 0; j < run; ++j) key[i + j] = first + j * rows.row_bytes;
    i += run;
  }
}

// How a call is cut: rows into groups, their entries into parts. Parts and what is scored at a time
// hold whole candidate blocks.
struct Cutting {
  int64_t groups;   // of rows
  int64_t parts;    // of entries
  int64_t step;     // entries at a time
  int64_t entries;  // of the row that has most
};

Cutting CutCall(const IndexSelectParams& p) {
  Cutting cut = {};
  cut.groups = (p.rows + kScoreRows - 1) / kScoreRows;
  for (int64_t r = 0; r < p.rows; ++r) cut.entries = Most(cut.entries, ScoredEntries(p, r));
  const int64_t threads = p.stream.team->size();
  const bool enough = cut.groups % threads == 0 || cut.groups >= 4 * threads;
  cut.parts = Most(1, Least(enough ? 1 : threads, cut.entries / kPartEntries));
  const int64_t block = p.make_candidates != nullptr ? p.make_candidates->block_size : 1;
  cut.step = Most(1, kScoreEntries / block) * block;
  return cut;
}

// The best of one part of one row.
struct PartLists {
  int32_t* order;  // [room]: wanted in whole vectors
  int32_t* entry;  // [room]
  int64_t* count;
};

// What all threads of one call share.
struct SelectWork {
  const IndexSelectParams& p;
  Cutting cut;
  int64_t groups;          // of columns
  uint32_t* query;         // [rows, IndexQuery::Words]
  int32_t* kept[2];        // [rows, parts, 2, room]: entries, and candidate blocks
  int64_t* kept_count[2];  // [rows, parts]
  int64_t wanted[2];

  int64_t Room(int kind) const { return (wanted[kind] + kLanes - 1) / kLanes * kLanes; }

  IndexQuery Query(int64_t row) const {
    return IndexQuery::In(query + row * IndexQuery::Words(p.heads, groups), p.heads, groups);
  }
  PartLists Kept(int kind, int64_t row, int64_t part) const {
    const int64_t at = row * cut.parts + part;
    int32_t* order = kept[kind] + at * 2 * Room(kind);
    return {order, order + Room(kind), kept_count[kind] + at};
  }
};

// Rotates and quantises the queries of a row, scales and rounds its head weights.
void PrepareQuery(const SelectWork& work, int64_t row) {
  const IndexSelectParams& p = work.p;
  float* angles = ScratchFloats(Slot::kAngles, 2 * p.rotation.rope_dim);
  const Angles forth = SpreadAngles(p.rotation, row, false, angles);
  const IndexQuery query = work.Query(row);
  for (int64_t h = 0; h < p.heads; ++h) {
    BF16* q = p.query + (row * p.heads + h) * p.width;
    Rotate(q, p.width, forth);
    PutQueryHead(q, h, query);
    BF16* w = p.head_weight + row * p.heads + h;
    StoreFirst(w, Set(ValueOf(*w) * p.weight_scale), 1);
    query.weight[h] = ValueOf(*w);
  }
}

// Unpacked keys of the row that needed them last.
struct UnpackedKeys {
  uint32_t* memory;  // [step in whole vectors / kLanes, KeyTile::Words]
  int64_t groups;
  int64_t row = -1;
  int64_t begin = 0, count = 0;

  KeyTile Tile(int64_t i) const {
    return KeyTile::In(memory + i / kLanes * KeyTile::Words(groups), groups);
  }
};

// Whether two neighbouring rows can use the same unpacked keys.
bool SharesKeys(const IndexSelectParams& p, int64_t a, int64_t b) {
  return p.row_sequence[a] == p.row_sequence[b] && !IsRestricted(p, a) && !IsRestricted(p, b);
}

void Unpack(const IndexSelectParams& p, int64_t row, int64_t begin, int64_t n, UnpackedKeys* keys) {
  const bool shared = keys->row >= 0 && SharesKeys(p, keys->row, row);
  if (shared && keys->begin == begin && keys->count >= n) return;
  keys->row = row;
  keys->begin = begin;
  keys->count = n;
  for (int64_t i = 0; i < n; i += kLanes) {
    const uint8_t* key[kLanes];
    const int64_t found = Least(kLanes, n - i);
    FindIndexKeys(p, row, begin + i, found, key);
    for (int64_t j = found; j < kLanes; ++j) key[j] = key[found - 1];
    PutKeys(key, keys->groups, keys->Tile(i));
  }
}

// Candidate blocks with their highest scores; the block of the newest entry is always in.
void OfferBlocks(const IndexSelectParams& p, int64_t row, const float* score, int64_t begin,
                 int64_t n, BestList* list) {
  const int64_t size = p.make_candidates->block_size;
  const int64_t count = (n + size - 1) / size;
  for (int64_t first = 0; first < count; first += kLanes) {
    const int64_t blocks = Least(kLanes, count - first);
    float best[kLanes];
    for (int64_t b = 0; b < blocks; ++b) {
      float top = -__builtin_inff();
      const int64_t from = (first + b) * size;
      for (int64_t i = from; i < Least(n, from + size); ++i) top = score[i] > top ? score[i] : top;
      best[b] = begin + from + size >= p.visible[row] ? __builtin_inff() : top;
    }
    list->Offer(LoadFirst(best, blocks), blocks, static_cast<int32_t>(begin / size + first));
  }
}

// Entries [begin, begin + n) of a row.
void ScoreStep(const SelectWork& work, int64_t row, int64_t begin, int64_t n, UnpackedKeys* keys,
               BestList* best, BestList* blocks) {
  Unpack(work.p, row, begin, n, keys);
  float* score = ScratchFloats(Slot::kScores, work.cut.step + kLanes);
  const IndexQuery query = work.Query(row);
  for (int64_t i = 0; i < n; i += kLanes) {
    const F scores = ScoreKeys(query, keys->Tile(i));
    best->Offer(scores, Least(kLanes, n - i), static_cast<int32_t>(begin + i));
    Store(score + i, scores);
  }
  if (NeedsCandidates(work.p, row)) OfferBlocks(work.p, row, score, begin, n, blocks);
}

void Keep(BestList* list, const PartLists& kept) {
  list->Cut();
  *kept.count = list->count;
  for (int64_t i = 0; i < list->count; ++i) {
    kept.order[i] = list->order[i];
    kept.entry[i] = list->entry[i];
  }
}

// One part of the entries of rows [begin, end).
void ScorePart(const SelectWork& work, int64_t begin, int64_t end, int64_t part) {
  const IndexSelectParams& p = work.p;
  const int64_t steps = (work.cut.entries + work.cut.step - 1) / work.cut.step;
  const int64_t tiles = (work.cut.step + kLanes - 1) / kLanes;
  UnpackedKeys keys = {
      static_cast<uint32_t*>(Scratch(Slot::kPrivateKeys, tiles * KeyTile::Words(work.groups) * 4)),
      work.groups};
  BestList list[2][kScoreRows];
  for (int kind = 0; kind < 2; ++kind) {
    const int64_t words = 2 * BestList::Capacity(work.wanted[kind]);
    auto* memory = static_cast<int32_t*>(
        Scratch(kind == 0 ? Slot::kOrder : Slot::kBlockScores, kScoreRows * words * 4));
    for (int64_t r = 0; r < kScoreRows; ++r) {
      list[kind][r] = BestList::In(memory + r * words, work.wanted[kind]);
    }
  }
  for (int64_t s = part * steps / work.cut.parts; s < (part + 1) * steps / work.cut.parts; ++s) {
    const int64_t from = s * work.cut.step;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t n = Least(work.cut.step, ScoredEntries(p, row) - from);
      if (n > 0) ScoreStep(work, row, from, n, &keys, &list[0][row - begin], &list[1][row - begin]);
    }
  }
  for (int64_t row = begin; row < end; ++row) {
    for (int kind = 0; kind < 2; ++kind) Keep(&list[kind][row - begin], work.Kept(kind, row, part));
  }
}

// The best of all parts of a row, ascending, at `out`; returns how many.
int64_t JoinParts(const SelectWork& work, int kind, int64_t row, int32_t* out) {
  const int64_t wanted = work.wanted[kind];
  BestList list = BestList::In(
      static_cast<int32_t*>(Scratch(Slot::kOrder, 2 * BestList::Capacity(wanted) * 4)), wanted);
  for (int64_t part = 0; part < work.cut.parts; ++part) {
    const PartLists kept = work.Kept(kind, row, part);
    list.Merge(kept.order, kept.entry, *kept.count);
  }
  list.Cut();
  for (int64_t i = 0; i < list.count; ++i) out[i] = list.entry[i];
  return list.count;
}

void PutSelection(const SelectWork& work, int64_t row) {
  const IndexSelectParams& p = work.p;
  if (p.make_candidates != nullptr) {
    CandidateSets& sets = *p.make_candidates;
    sets.count[row] =
        NeedsCandidates(p, row) ? JoinParts(work, 1, row, sets.blocks + row * sets.capacity) : -1;
  }
  int32_t* out = p.selection + row * p.topk;
  int64_t chosen = 0;
  if (NeedsScores(p, row)) {
    chosen = JoinParts(work, 0, row, out);
    for (int64_t i = 0; i < chosen; ++i) out[i] = static_cast<int32_t>(EntryOf(p, row, out[i]));
  } else {
    for (; chosen < p.visible[row]; ++chosen) out[chosen] = static_cast<int32_t>(chosen);
  }
  for (int64_t i = chosen; i < p.topk; ++i) out[i] = -1;
}

SelectWork MakeWork(const IndexSelectParams& p) {
  SelectWork work = {p, CutCall(p), p.width / kGroup, nullptr, {}, {}, {p.topk, 0}};
  if (p.make_candidates != nullptr) work.wanted[1] = p.make_candidates->capacity;
  work.query = static_cast<uint32_t*>(
      Scratch(Slot::kQuery, p.rows * IndexQuery::Words(p.heads, work.groups) * 4));
  const int64_t lists = p.rows * work.cut.parts;
  auto* counts = static_cast<int64_t*>(Scratch(Slot::kMix, 2 * lists * 8));
  work.kept_count[0] = counts;
  work.kept_count[1] = counts + lists;
  auto* kept =
      static_cast<int32_t*>(Scratch(Slot::kSum, lists * 2 * (work.Room(0) + work.Room(1)) * 4));
  work.kept[0] = kept;
  work.kept[1] = kept + lists * 2 * work.Room(0);
  return work;
}

bool AllKeysAreFp4(const IndexSelectParams& p) {
  bool all = p.query_format == RowFormat::kFp4E8M0;
  for (int64_t r = 0; r < p.rows; ++r) {
    all = all && p.keys[p.row_sequence[r]].format == RowFormat::kFp4E8M0;
  }
  return all;
}

void IndexSelect(const IndexSelectParams& p) {
  if (p.rows == 0) return;
  const bool both = p.restrict_to != nullptr && p.make_candidates != nullptr;
  if (both || !AllKeysAreFp4(p)) return reference::IndexSelect(p);
  const SelectWork work = MakeWork(p);
  p.stream.team->ParallelFor(p.rows, Most(1, (1 << 15) / (p.heads * p.width)),
                             [&](int64_t begin, int64_t end) {
                               for (int64_t r = begin; r < end; ++r) PrepareQuery(work, r);
                             });
  const int64_t parts = work.cut.parts;
  const int64_t entries = kScoreRows * work.cut.entries / parts;
  p.stream.team->ParallelFor(
      work.cut.groups * parts, Most(1, kWorkWorthAThread / Most(1, entries * p.heads * p.width)),
      [&](int64_t begin, int64_t end) {
        for (int64_t unit = begin; unit < end; ++unit) {
          const int64_t row = unit / parts * kScoreRows;
          ScorePart(work, row, Least(row + kScoreRows, p.rows), unit % parts);
        }
      });
  p.stream.team->ParallelFor(p.rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) PutSelection(work, r);
  });
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
