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

}  // namespace

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

namespace {

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
      window_{Transfer(group->ranks_, group->group_), Transfer(group->ranks_, group->group_)},
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
  if (ok()) Note(groups_.FinishLater());
  if (!ok()) return;
  const OwnerRows rows(run, layer);
  std::vector<std::byte> message;
  for (const SharedSequence& q : sequences_) {
    KeepOwnHalves(run, q, q.pieces[static_cast<size_t>(place_)], rows);
    AddGroups(run, rows, q, &message);
  }
  for (int k = 0; k < size(); ++k) {
    int64_t bytes = 0;
    for (const SharedSequence& q : sequences_)
      bytes += rows.Bytes(run, q, q.pieces[static_cast<size_t>(k)]);
    if (k < place_) groups_.Expect(k, bytes);
    if (k > place_) groups_.out(k) = message;
  }
  group_->counts_.bytes += groups_.bytes_out();
  owners_.push_back(layer);
  groups_due_ = true;
  Note(groups_.Begin());
}

void ContextStep::FinishGroups(Run& run) {
  if (!std::exchange(groups_due_, false) || !ok()) return;
  Note(groups_.FinishEarlier());
  const OwnerRows rows(run, owners_.back());
  for (int k = 0; ok() && k < place_; ++k) {
    const std::byte* next = groups_.in(k).data();
    for (const SharedSequence& q : sequences_) next = TakeGroups(run, rows, q, k, next);
  }
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
  Transfer& window = window_[static_cast<size_t>(layer) % window_.size()];
  if (ok()) Note(window.FinishLater());
  if (!ok()) return;
  const int64_t row_bytes = run.pool.geometry().WindowRowBytes();
  for (int k = 0; k < size(); ++k) {
    std::vector<std::byte>& out = window.out(k);
    out.clear();
    int64_t bytes = 0;
    for (const SharedSequence& q : sequences_) {
      if (k < place_) bytes += Halo(run, q, k, place_).rows() * row_bytes;
      const Piece rows = k > place_ ? Halo(run, q, place_, k) : Piece();
      if (rows.empty()) continue;
      const std::byte* first = OwnWindow(run, q, rows.begin);
      out.insert(out.end(), first, first + rows.rows() * row_bytes);
    }
    window.Expect(k, bytes);
  }
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
  Transfer& window = window_[static_cast<size_t>(layer) % window_.size()];
  if (ok()) Note(window.FinishEarlier());
  const int64_t row_bytes = run.pool.geometry().WindowRowBytes();
  for (int k = 0; ok() && k < place_; ++k) {
    const std::byte* from = window.in(k).data();
    for (const SharedSequence& q : sequences_) {
      const Piece rows = Halo(run, q, k, place_);
      for (int64_t p = rows.begin; p < rows.end; ++p, from += row_bytes)
        std::copy_n(from, row_bytes, RingRow(run, q, layer, p));
    }
  }
}

void ContextStep::CommitWindow(Run& run, int layer) {
  if (!ok()) return;
  const int64_t row_bytes = run.pool.geometry().WindowRowBytes();
  for (const SharedSequence& q : sequences_) {
    const Piece rows = Tail(run, q, place_);
    for (int64_t p = rows.begin; p < rows.end; ++p)
      std::copy_n(OwnWindow(run, q, p), row_bytes, RingRow(run, q, layer, p));
  }
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

void ContextStep::AddGroups(Run& run, const OwnerRows& rows, const SharedSequence& q,
                            std::vector<std::byte>* message) const {
  rows.EachRow(run, q, q.pieces[static_cast<size_t>(place_)], [&](const void* from, int64_t bytes) {
    const auto* first = static_cast<const std::byte*>(from);
    message->insert(message->end(), first, first + bytes);
  });
}

const std::byte* ContextStep::TakeGroups(Run& run, const OwnerRows& rows, const SharedSequence& q,
                                         int from, const std::byte* next) const {
  rows.EachRow(run, q, q.pieces[static_cast<size_t>(from)], [&](void* to, int64_t bytes) {
    std::memcpy(to, next, static_cast<size_t>(bytes));
    next += bytes;
  });
  return next;
}

void ContextStep::PutRest(Run& run, int to, std::vector<std::byte>* message) const {
  const int64_t row_bytes = run.pool.geometry().WindowRowBytes();
  EachTailRow(run, place_, to, [&](const SharedSequence& q, int layer, int64_t p) {
    const std::byte* row = RingRow(run, q, layer, p);
    message->insert(message->end(), row, row + row_bytes);
  });
  if (to > place_) return;  // has the groups
  for (const int layer : owners_)
    for (const SharedSequence& q : sequences_) AddGroups(run, OwnerRows(run, layer), q, message);
}

int64_t ContextStep::RestBytes(Run& run, int from) const {
  int64_t bytes = 0;
  EachTailRow(run, from, place_, [&](const SharedSequence&, int, int64_t) {
    bytes += run.pool.geometry().WindowRowBytes();
  });
  if (from < place_) return bytes;
  for (const int layer : owners_)
    for (const SharedSequence& q : sequences_)
      bytes += OwnerRows(run, layer).Bytes(run, q, q.pieces[static_cast<size_t>(from)]);
  return bytes;
}

void ContextStep::TakeRest(Run& run, int from) const {
  const int64_t row_bytes = run.pool.geometry().WindowRowBytes();
  const std::byte* next = heads_.in(from).data();
  EachTailRow(run, from, place_, [&](const SharedSequence& q, int layer, int64_t p) {
    std::copy_n(next, row_bytes, RingRow(run, q, layer, p));
    next += row_bytes;
  });
  if (from < place_) return;
  for (const int layer : owners_)
    for (const SharedSequence& q : sequences_)
      next = TakeGroups(run, OwnerRows(run, layer), q, from, next);
}

// Halos have gone forward, from layer to layer. What only later steps need, and what earlier ranks
// need of later ones, goes at once.
void ContextStep::End(Run& run) {
  FinishGroups(run);
  for (Transfer* sent : {&window_[0], &window_[1], &groups_})
    if (ok()) Note(sent->FinishLater());
  if (!ok()) return;
  for (int k = 0; k < size(); ++k) {
    if (k == place_) continue;
    heads_.out(k).clear();
    PutRest(run, k, &heads_.out(k));
    heads_.Expect(k, RestBytes(run, k));
  }
  Note(heads_.Begin());
  if (ok()) Note(heads_.FinishEarlier());
  if (ok()) Note(heads_.FinishLater());
  group_->counts_.bytes += heads_.bytes_out();
  for (int k = 0; ok() && k < size(); ++k)
    if (k != place_) TakeRest(run, k);
  exchanged_ = committed_;
  owners_.clear();
}

}  // namespace thalweg::model
