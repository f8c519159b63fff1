// What ranks hand one another in a layer.
#include "model/context_step.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "model/run.h"

namespace thalweg::model {
namespace {

constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

struct GroupRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// The groups that a piece completes and writes.
GroupRange GroupsOf(const Piece& piece, int64_t ratio, int64_t write_from) {
  if (piece.empty()) return {};
  const int64_t begin = std::max(piece.begin, write_from) / ratio;
  return {begin, std::max(begin, piece.end / ratio)};
}

// The first of the even positions of a piece whose values are kept.
int64_t FirstHalf(const kvpool::Geometry& g, const SharedSequence& q, const Piece& piece) {
  const int64_t newest = q.end + q.end % 2 - 2 * g.PendingRows();
  return std::max(piece.begin + piece.begin % 2, newest);
}

// The rows of one owner layer, and how they lie in a message.
struct OwnerRows {
  OwnerRows(const Run& run, int layer)
      : owner(run.parts.owner_of_layer[static_cast<size_t>(layer)]),
        ratio(run.plan(layer).ratio),
        half_bytes(run.config().head_dim * kFloat) {
    const kvpool::Geometry& g = run.pool.geometry();
    const kvpool::OwnerGroup& group = g.owners[static_cast<size_t>(owner)];
    main_bytes = g.MainRowBytes(group);
    index_bytes = g.IndexRowBytes(group);
  }
  int owner;
  int64_t ratio;
  int64_t half_bytes;
  int64_t main_bytes = 0, index_bytes = 0;

  int64_t Bytes(const Run& run, const SharedSequence& q, const Piece& piece) const {
    const GroupRange groups = GroupsOf(piece, ratio, run.pool.write_from(q.id));
    int64_t bytes = (groups.end - groups.begin) * (main_bytes + index_bytes);
    if (ratio == 1 || piece.empty()) return bytes;
    const int64_t first = FirstHalf(run.pool.geometry(), q, piece);
    return bytes + std::max<int64_t>(0, (piece.end - first + 1) / 2) * 2 * half_bytes;
  }

  // Calls move(place in the pool, bytes) for all of a piece in the order of a message.
  template <typename Move>
  void EachRow(Run& run, const SharedSequence& q, const Piece& piece, const Move& move) const {
    const GroupRange groups = GroupsOf(piece, ratio, run.pool.write_from(q.id));
    const tensor::PagedRows main = run.pool.MainRows(q.id, owner);
    const tensor::PagedRows index = run.pool.IndexRows(q.id, owner);
    for (int64_t g = groups.begin; g < groups.end; ++g) {
      move(main.Row(g), main_bytes);
      move(index.Row(g), index_bytes);
    }
    if (ratio == 1 || piece.empty()) return;
    for (int64_t p = FirstHalf(run.pool.geometry(), q, piece); p < piece.end; p += 2) {
      const kvpool::PendingGroup half = run.pool.Pending(q.id, owner, p / 2);
      move(half.kv, half_bytes);
      move(half.score, half_bytes);
    }
  }
};

// First halves of this rank's own piece.
void KeepOwnHalves(Run& run, const SharedSequence& q, const Piece& piece, const OwnerRows& rows) {
  if (rows.ratio == 1 || piece.empty()) return;
  const int64_t width = run.config().head_dim;
  for (int64_t p = FirstHalf(run.pool.geometry(), q, piece); p < piece.end; p += 2) {
    const kvpool::PendingGroup to = run.pool.Pending(q.id, rows.owner, p / 2);
    const int64_t at = (q.first_row + p - piece.begin) * width;
    std::copy_n(run.ws.group_kv + at, width, to.kv);
    std::copy_n(run.ws.group_score + at, width, to.score);
  }
}

}  // namespace

int64_t SharedSequence::LogitRowsOf(int place) const {
  const Piece& piece = pieces[static_cast<size_t>(place)];
  if (piece.empty() || logits == LogitRows::kNone) return 0;
  if (logits == LogitRows::kAll) return piece.rows();
  return piece.end == end ? 1 : 0;
}

ContextStep::ContextStep(ContextParallel* group)
    : group_(group),
      place_(group->place()),
      window_(group->ranks_, group->group_),
      groups_(group->ranks_, group->group_),
      heads_(group->ranks_, group->group_) {}

void ContextStep::Note(Status status) {
  if (!status.ok() && ok()) static_cast<void>(group_->Fail(std::move(status)));
}

namespace {

// The compressed id of a token of a chunk, as Engram keeps it.
int32_t CompressedId(const Run& run, const parallel::OfferedChunk& chunk, int64_t position) {
  const auto i = static_cast<size_t>(position - chunk.start);
  if (!chunk.image.empty() && chunk.image[i] != 0) return kDeadToken;
  return run.parts.token_map[static_cast<size_t>(chunk.tokens[i])];
}

void KeepIds(Run& run, const SharedSequence& q, int64_t begin, int64_t end) {
  for (int64_t p = std::max(begin, q.chunk.start); p < end; ++p)
    run.pool.History(q.id, p) = CompressedId(run, q.chunk, p);
}

}  // namespace

void ContextStep::PrepareHistory(Run& run) const {
  if (run.parts.token_map.empty()) return;
  for (const SharedSequence& q : sequences_) {
    const Piece& piece = q.pieces[static_cast<size_t>(place_)];
    if (!piece.empty())
      KeepIds(run, q, piece.begin - run.config().engram_max_ngram_size + 1, piece.begin);
  }
}

void ContextStep::KeepHistory(Run& run) const {
  if (run.parts.token_map.empty()) return;
  for (const SharedSequence& q : sequences_)
    KeepIds(run, q, q.chunk.end() - run.pool.geometry().HistoryRows(), q.chunk.end());
}

void ContextStep::BeginGroups(Run& run, int layer) {
  FinishLateGroups(run);
  if (!ok()) return;
  const OwnerRows rows(run, layer);
  std::vector<std::byte> message;
  for (const SharedSequence& q : sequences_) {
    const Piece& piece = q.pieces[static_cast<size_t>(place_)];
    KeepOwnHalves(run, q, piece, rows);
    rows.EachRow(run, q, piece, [&](const void* from, int64_t bytes) {
      const auto* first = static_cast<const std::byte*>(from);
      message.insert(message.end(), first, first + bytes);
    });
  }
  for (int k = 0; k < size(); ++k) {
    if (k == place_) continue;
    groups_.out(k) = message;
    int64_t bytes = 0;
    for (const SharedSequence& q : sequences_)
      bytes += rows.Bytes(run, q, q.pieces[static_cast<size_t>(k)]);
    groups_.Expect(k, bytes);
  }
  group_->counts_.bytes += groups_.bytes_out();
  late_groups_ = layer;
  groups_due_ = true;
  Note(groups_.Begin());
}

void ContextStep::TakeGroups(Run& run, int from) {
  const OwnerRows rows(run, late_groups_);
  const std::byte* next = groups_.in(from).data();
  for (const SharedSequence& q : sequences_)
    rows.EachRow(run, q, q.pieces[static_cast<size_t>(from)], [&](void* to, int64_t bytes) {
      std::memcpy(to, next, static_cast<size_t>(bytes));
      next += bytes;
    });
}

void ContextStep::FinishGroups(Run& run) {
  if (!std::exchange(groups_due_, false) || !ok()) return;
  Note(groups_.FinishEarlier());
  for (int k = 0; ok() && k < place_; ++k) TakeGroups(run, k);
}

void ContextStep::FinishLateGroups(Run& run) {
  if (late_groups_ < 0 || !ok()) return;
  Note(groups_.FinishLater());
  for (int k = place_ + 1; ok() && k < size(); ++k) TakeGroups(run, k);
  late_groups_ = -1;
}

// What `to` needs of the rows of `from`: those that its own piece looks back on, and the newest,
// which the next step looks back on. Only the owner drafts.
Piece ContextStep::WindowRows(const Run& run, const SharedSequence& q, int from, int to,
                              int layer) const {
  const Piece& piece = q.pieces[static_cast<size_t>(from)];
  const Piece& own = q.pieces[static_cast<size_t>(to)];
  const kvpool::Geometry& g = run.pool.geometry();
  const bool draft = run.plan(layer).draft;
  if (piece.empty() || (draft && to != q.owner)) return {};
  int64_t begin = q.end - g.RingRows();
  if (!draft && to > from && !own.empty()) begin = std::min(begin, own.begin - g.window + 1);
  return {std::max(begin, piece.begin), piece.end};
}

const std::byte* ContextStep::OwnWindow(const Run& run, const SharedSequence& q,
                                        int64_t position) const {
  const int64_t row = q.first_row + position - q.pieces[static_cast<size_t>(place_)].begin;
  return reinterpret_cast<const std::byte*>(run.ws.window_chunk) +
         row * run.pool.geometry().WindowRowBytes();
}

void ContextStep::BeginWindow(Run& run, int layer) {
  FinishLateWindow(run);
  if (!ok()) return;
  const int64_t row_bytes = run.pool.geometry().WindowRowBytes();
  for (int k = 0; k < size(); ++k) {
    if (k == place_) continue;
    std::vector<std::byte>& out = window_.out(k);
    out.clear();
    int64_t bytes = 0;
    for (const SharedSequence& q : sequences_) {
      bytes += WindowRows(run, q, k, place_, layer).rows() * row_bytes;
      const Piece rows = WindowRows(run, q, place_, k, layer);
      if (rows.empty()) continue;
      const std::byte* first = OwnWindow(run, q, rows.begin);
      out.insert(out.end(), first, first + rows.rows() * row_bytes);
    }
    window_.Expect(k, bytes);
  }
  group_->counts_.bytes += window_.bytes_out();
  late_window_ = layer;
  Note(window_.Begin());
}

namespace {

void PutRow(Run& run, const SharedSequence& q, int64_t position, int layer, const std::byte* from) {
  const kvpool::Geometry& g = run.pool.geometry();
  std::memcpy(run.pool.Ring(q.id, layer) + position % g.RingRows() * g.WindowRowBytes(), from,
              static_cast<size_t>(g.WindowRowBytes()));
}

}  // namespace

void ContextStep::FinishWindow(Run& run, int layer) {
  if (!ok()) return;
  Note(window_.FinishEarlier());
  const kvpool::Geometry& g = run.pool.geometry();
  for (int k = 0; ok() && k < place_; ++k) {
    const std::byte* from = window_.in(k).data();
    for (const SharedSequence& q : sequences_) {
      const Piece rows = WindowRows(run, q, k, place_, layer);
      const Piece& own = q.pieces[static_cast<size_t>(place_)];
      for (int64_t p = rows.begin; p < rows.end; ++p, from += g.WindowRowBytes()) {
        if (!own.empty() && p >= own.begin - g.window + 1) PutRow(run, q, p, layer, from);
      }
    }
  }
}

void ContextStep::PutTail(Run& run, const SharedSequence& q, Piece rows, int layer,
                          const std::byte* from) {
  const kvpool::Geometry& g = run.pool.geometry();
  for (int64_t p = rows.begin; p < rows.end; ++p, from += g.WindowRowBytes())
    if (p >= q.end - g.RingRows()) PutRow(run, q, p, layer, from);
}

void ContextStep::CommitWindow(Run& run, int layer) {
  if (!ok()) return;
  Note(window_.FinishEarlier());
  for (const SharedSequence& q : sequences_) {
    const Piece& own = q.pieces[static_cast<size_t>(place_)];
    if (!own.empty()) PutTail(run, q, own, layer, OwnWindow(run, q, own.begin));
  }
  for (int k = 0; ok() && k < place_; ++k) {
    const std::byte* from = window_.in(k).data();
    for (const SharedSequence& q : sequences_) {
      const Piece rows = WindowRows(run, q, k, place_, layer);
      PutTail(run, q, rows, layer, from);
      from += rows.rows() * run.pool.geometry().WindowRowBytes();
    }
  }
}

void ContextStep::FinishLateWindow(Run& run) {
  if (late_window_ < 0 || !ok()) return;
  Note(window_.FinishLater());
  for (int k = place_ + 1; ok() && k < size(); ++k) {
    const std::byte* from = window_.in(k).data();
    for (const SharedSequence& q : sequences_) {
      const Piece rows = WindowRows(run, q, k, place_, late_window_);
      PutTail(run, q, rows, late_window_, from);
      from += rows.rows() * run.pool.geometry().WindowRowBytes();
    }
  }
  late_window_ = -1;
}

void ContextStep::End(Run& run) {
  FinishLateWindow(run);
  FinishLateGroups(run);
}

}  // namespace thalweg::model
