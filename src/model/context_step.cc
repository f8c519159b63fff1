// What ranks hand one another in a layer.
#include "model/context_step.h"

#include <algorithm>
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

// Rows [begin, end) in runs that lie one behind the other: those of a block.
template <typename Move>
void EachRun(const tensor::PagedRows& rows, const GroupRange& range, const Move& move) {
  for (int64_t row = range.begin; row < range.end;) {
    const int64_t next = std::min(range.end, (row / rows.rows_per_block + 1) * rows.rows_per_block);
    move(rows.Row(row), (next - row) * rows.row_bytes);
    row = next;
  }
}

// The rows of one owner layer, and how they lie in a message: main rows, index keys, half groups.
struct OwnerRows {
  OwnerRows(const Run& run, int layer)
      : owner(run.parts.owner_of_layer[static_cast<size_t>(layer)]),
        ratio(run.plan(layer).ratio),
        half_bytes(run.config().head_dim * kFloat) {
    const kvpool::Geometry& g = run.pool.geometry();
    const kvpool::OwnerGroup& group = g.owners[static_cast<size_t>(owner)];
    row_bytes = g.MainRowBytes(group) + g.IndexRowBytes(group);
  }
  int owner;
  int64_t ratio;
  int64_t half_bytes;
  int64_t row_bytes = 0;

  int64_t Bytes(const Run& run, const SharedSequence& q, const Piece& piece) const {
    const GroupRange groups = GroupsOf(piece, ratio, run.pool.write_from(q.id));
    const int64_t bytes = (groups.end - groups.begin) * row_bytes;
    if (ratio == 1 || piece.empty()) return bytes;
    const int64_t first = FirstHalf(run.pool.geometry(), q, piece);
    return bytes + std::max<int64_t>(0, (piece.end - first + 1) / 2) * 2 * half_bytes;
  }

  // Calls move(place in the pool, bytes) for all of a piece in the order of a message.
  template <typename Move>
  void EachPlace(Run& run, const SharedSequence& q, const Piece& piece, const Move& move) const {
    const GroupRange groups = GroupsOf(piece, ratio, run.pool.write_from(q.id));
    EachRun(run.pool.MainRows(q.id, owner), groups, move);
    EachRun(run.pool.IndexRows(q.id, owner), groups, move);
    if (ratio == 1 || piece.empty()) return;
    for (int64_t p = FirstHalf(run.pool.geometry(), q, piece); p < piece.end; p += 2) {
      const kvpool::PendingGroup half = run.pool.Pending(q.id, owner, p / 2);
      move(half.kv, half_bytes);
      move(half.score, half_bytes);
    }
  }
};

// First halves of this rank's own piece.
void KeepOwnHalves(Run& run, const SharedSequence& q, const Piece& piece, const OwnerRows& rows,
                   RowCopies* copies) {
  if (rows.ratio == 1 || piece.empty()) return;
  const int64_t width = run.config().head_dim;
  for (int64_t p = FirstHalf(run.pool.geometry(), q, piece); p < piece.end; p += 2) {
    const kvpool::PendingGroup to = run.pool.Pending(q.id, rows.owner, p / 2);
    const int64_t at = (q.first_row + p - piece.begin) * width;
    copies->Add(to.kv, run.ws.group_kv + at, rows.half_bytes);
    copies->Add(to.score, run.ws.group_score + at, rows.half_bytes);
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
    : group_(group), place_(group->place()), heads_(group->ranks_, group->group_) {}

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

int64_t ContextStep::GroupBytes(const Run& run, int layer, int from) const {
  const OwnerRows rows(run, layer);
  int64_t bytes = 0;
  for (const SharedSequence& q : sequences_)
    bytes += rows.Bytes(run, q, q.pieces[static_cast<size_t>(from)]);
  return bytes;
}

// Of this rank's pieces; the answer is what lies behind them.
std::byte* ContextStep::AddGroups(Run& run, int layer, std::byte* message) const {
  const OwnerRows rows(run, layer);
  for (const SharedSequence& q : sequences_)
    rows.EachPlace(run, q, q.pieces[static_cast<size_t>(place_)],
                   [&](const void* place, int64_t bytes) {
                     copying().Add(message, place, bytes);
                     message += bytes;
                   });
  return message;
}

const std::byte* ContextStep::TakeGroups(Run& run, int layer, int from,
                                         const std::byte* message) const {
  const OwnerRows rows(run, layer);
  for (const SharedSequence& q : sequences_)
    rows.EachPlace(run, q, q.pieces[static_cast<size_t>(from)], [&](void* place, int64_t bytes) {
      copying().Add(place, message, bytes);
      message += bytes;
    });
  return message;
}

void ContextStep::BeginGroups(Run& run, int layer) {
  RowTransfer& groups = group_->groups_;
  if (ok()) Note(groups.FinishLater());
  if (!ok()) return;
  const OwnerRows rows(run, layer);
  for (const SharedSequence& q : sequences_)
    KeepOwnHalves(run, q, q.pieces[static_cast<size_t>(place_)], rows, &copying());
  copying().Copy(run);
  for (int k = 0; k < place_; ++k) groups.Expect(k, GroupBytes(run, layer, k));
  for (int k = place_ + 1; k < size(); ++k)
    AddGroups(run, layer, groups.Out(k, GroupBytes(run, layer, place_)));
  copying().Copy(run);
  group_->counts_.bytes += groups.bytes_out();
  owners_.push_back(layer);
  groups_due_ = true;
  Note(groups.Begin());
}

void ContextStep::FinishGroups(Run& run) {
  if (!std::exchange(groups_due_, false) || !ok()) return;
  RowTransfer& groups = group_->groups_;
  Note(groups.FinishEarlier());
  for (int k = 0; ok() && k < place_; ++k) TakeGroups(run, owners_.back(), k, groups.in(k));
  copying().Copy(run);
}

// The rows of `to` that look back on those of `from`, which lie before it.
Piece ContextStep::Halo(const Run& run, const SharedSequence& q, int from, int to) const {
  const Piece& piece = q.pieces[static_cast<size_t>(from)];
  const Piece& behind = q.pieces[static_cast<size_t>(to)];
  if (to < from || piece.empty() || behind.empty()) return {};
  return {std::max(piece.begin, behind.begin - run.pool.geometry().window + 1), piece.end};
}

// Of the rows of `from` the newest of the sequence, which a later step looks back on.
Piece ContextStep::Tail(const Run& run, const SharedSequence& q, int from) const {
  const Piece& piece = q.pieces[static_cast<size_t>(from)];
  return {std::max(piece.begin, q.end - run.pool.geometry().RingRows()), piece.end};
}

void ContextStep::BeginWindow(Run& run, int layer) {
  RowTransfer& window = group_->window_[static_cast<size_t>(layer) % group_->window_.size()];
  if (ok()) Note(window.FinishLater());
  if (!ok()) return;
  const int64_t row_bytes = run.pool.geometry().WindowRowBytes();
  const auto halo_bytes = [&](int from, int to) {
    int64_t rows = 0;
    for (const SharedSequence& q : sequences_) rows += Halo(run, q, from, to).rows();
    return rows * row_bytes;
  };
  for (int k = 0; k < place_; ++k) window.Expect(k, halo_bytes(k, place_));
  for (int k = place_ + 1; k < size(); ++k) {
    std::byte* out = window.Out(k, halo_bytes(place_, k));
    for (const SharedSequence& q : sequences_) {
      const Piece rows = Halo(run, q, place_, k);
      if (!rows.empty()) copying().Add(out, OwnWindow(run, q, rows.begin), rows.rows() * row_bytes);
      out += rows.rows() * row_bytes;
    }
  }
  copying().Copy(run);
  group_->counts_.bytes += window.bytes_out();
  Note(window.Begin());
}

namespace {

std::byte* RingRow(Run& run, const SharedSequence& q, int layer, int64_t position) {
  const kvpool::Geometry& g = run.pool.geometry();
  return reinterpret_cast<std::byte*>(run.pool.Ring(q.id, layer)) +
         position % g.RingRows() * g.WindowRowBytes();
}

}  // namespace

const std::byte* ContextStep::OwnWindow(const Run& run, const SharedSequence& q,
                                        int64_t position) const {
  const int64_t row = q.first_row + position - q.pieces[static_cast<size_t>(place_)].begin;
  return reinterpret_cast<const std::byte*>(run.ws.window_chunk) +
         row * run.pool.geometry().WindowRowBytes();
}

void ContextStep::FinishWindow(Run& run, int layer) {
  RowTransfer& window = group_->window_[static_cast<size_t>(layer) % group_->window_.size()];
  if (ok()) Note(window.FinishEarlier());
  const int64_t row_bytes = run.pool.geometry().WindowRowBytes();
  for (int k = 0; ok() && k < place_; ++k) {
    const std::byte* from = window.in(k);
    for (const SharedSequence& q : sequences_) {
      const Piece rows = Halo(run, q, k, place_);
      for (int64_t p = rows.begin; p < rows.end; ++p, from += row_bytes)
        copying().Add(RingRow(run, q, layer, p), from, row_bytes);
    }
  }
  copying().Copy(run);
}

void ContextStep::CommitWindow(Run& run, int layer) {
  if (!ok()) return;
  const int64_t row_bytes = run.pool.geometry().WindowRowBytes();
  for (const SharedSequence& q : sequences_) {
    const Piece rows = Tail(run, q, place_);
    for (int64_t p = rows.begin; p < rows.end; ++p)
      copying().Add(RingRow(run, q, layer, p), OwnWindow(run, q, p), row_bytes);
  }
  copying().Copy(run);
  ++committed_;
}

// Calls move(q, layer, position) for every newest row of `from` that `to` keeps, of the layers
// since the last exchange. Only the owner drafts.
template <typename Move>
void ContextStep::EachTailRow(const Run& run, int from, int to, const Move& move) const {
  for (int layer = exchanged_; layer < committed_; ++layer) {
    for (const SharedSequence& q : sequences_) {
      if (run.plan(layer).draft && to != q.owner) continue;
      const Piece rows = Tail(run, q, from);
      for (int64_t p = rows.begin; p < rows.end; ++p) move(q, layer, p);
    }
  }
}

int64_t ContextStep::RestBytes(const Run& run, int from, int to) const {
  int64_t bytes = 0;
  EachTailRow(run, from, to, [&](const SharedSequence&, int, int64_t) {
    bytes += run.pool.geometry().WindowRowBytes();
  });
  if (from < to) return bytes;  // which has the groups
  for (const int layer : owners_) bytes += GroupBytes(run, layer, from);
  return bytes;
}

void ContextStep::PutRest(Run& run, int to) const {
  const int64_t row_bytes = run.pool.geometry().WindowRowBytes();
  std::byte* next = group_->rest_.Out(to, RestBytes(run, place_, to));
  EachTailRow(run, place_, to, [&](const SharedSequence& q, int layer, int64_t p) {
    copying().Add(next, RingRow(run, q, layer, p), row_bytes);
    next += row_bytes;
  });
  if (place_ < to) return;
  for (const int layer : owners_) next = AddGroups(run, layer, next);
}

void ContextStep::TakeRest(Run& run, int from) const {
  const int64_t row_bytes = run.pool.geometry().WindowRowBytes();
  const std::byte* next = group_->rest_.in(from);
  EachTailRow(run, from, place_, [&](const SharedSequence& q, int layer, int64_t p) {
    copying().Add(RingRow(run, q, layer, p), next, row_bytes);
    next += row_bytes;
  });
  if (from < place_) return;
  for (const int layer : owners_) next = TakeGroups(run, layer, from, next);
}

// Halos have gone forward, from layer to layer. What only later steps need, and what earlier ranks
// need of later ones, goes at once.
void ContextStep::End(Run& run) {
  FinishGroups(run);
  for (RowTransfer* sent : {&group_->window_[0], &group_->window_[1], &group_->groups_})
    if (ok()) Note(sent->FinishLater());
  if (!ok()) return;
  RowTransfer& rest = group_->rest_;
  for (int k = 0; k < size(); ++k) {
    if (k == place_) continue;
    PutRest(run, k);
    rest.Expect(k, RestBytes(run, k, place_));
  }
  copying().Copy(run);
  Note(rest.Exchange());
  group_->counts_.bytes += rest.bytes_out();
  for (int k = 0; ok() && k < size(); ++k)
    if (k != place_) TakeRest(run, k);
  copying().Copy(run);
  exchanged_ = committed_;
  owners_.clear();
}

}  // namespace thalweg::model
