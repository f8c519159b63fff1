// At the decoder's first layer the rows that it does not run are gone, and those that it runs lie
// with the last ranks: they are shared out anew, in equal parts, and their residual state with
// them.
#include <algorithm>

#include "model/context_step.h"
#include "model/run.h"

namespace thalweg::model {
namespace {

Piece Common(const Piece& a, const Piece& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

// The residual state of rows, one part of a row behind the other.
class RowState {
 public:
  RowState(const Run& run, RowCopies* copies) : copies_(*copies) {
    run.ws.EachResidual(run.config(), [this](int64_t width, auto* data) {
      const auto bytes = width * static_cast<int64_t>(sizeof(*data));
      parts_.push_back({reinterpret_cast<std::byte*>(data), bytes});
      bytes_ += bytes;
    });
  }
  int64_t bytes() const { return bytes_; }
  // Both answer with what lies behind the row.
  std::byte* Read(int64_t row, std::byte* to) const {
    for (const Part& part : parts_) {
      copies_.Add(to, part.data + row * part.bytes, part.bytes);
      to += part.bytes;
    }
    return to;
  }
  const std::byte* Write(int64_t row, const std::byte* from) const {
    for (const Part& part : parts_) {
      copies_.Add(part.data + row * part.bytes, from, part.bytes);
      from += part.bytes;
    }
    return from;
  }
  std::byte* Take(const std::byte* from, std::byte* to) const {
    copies_.Add(to, from, bytes_);
    return to + bytes_;
  }

 private:
  struct Part {
    std::byte* data;
    int64_t bytes;
  };
  RowCopies& copies_;
  std::vector<Part> parts_;
  int64_t bytes_ = 0;
};

// Whether all that a row brings along is its residual state.
bool StateIsAll(const Run& run) {
  const auto begin = static_cast<int>(run.config().DecoderBegin());
  bool all = run.plan(begin).owns_index;
  for (int i = begin; i < run.config().num_hidden_layers; ++i) all = all && !run.plan(i).engram;
  return all;
}

}  // namespace

// New pieces of the rows that the decoder runs; nothing where the old ones do as well.
std::vector<std::vector<Piece>> ContextStep::CutAnew(const Run& run) const {
  std::vector<parallel::SequencePart> rows;
  bool trims = false;
  for (const SharedSequence& q : sequences_) {
    const int64_t start = std::clamp(q.decoder_from, q.start, q.end);
    trims = trims || start > q.start;
    rows.push_back({static_cast<int32_t>(rows.size()), start, q.end});
  }
  if (!trims || !ok() || !StateIsAll(run)) return {};
  const auto split = parallel::SplitContext(rows, {}, size(), 1, kept_);
  if (!split.ok()) return {};
  std::vector<std::vector<Piece>> pieces(sequences_.size(),
                                         std::vector<Piece>(static_cast<size_t>(size())));
  for (size_t k = 0; k < split->ranks.size(); ++k) {
    int64_t most = run.ws.max_rows - kept_[k];
    for (const parallel::SequencePart& part : split->ranks[k]) {
      pieces[static_cast<size_t>(part.sequence)][k] = {part.begin, part.end};
      most -= part.end - part.begin;
    }
    if (most < 0) return {};
  }
  return pieces;
}

// Rows go where they are run from now on.
void ContextStep::SendRows(Run& run, const std::vector<std::vector<Piece>>& pieces) {
  const RowState state(run, &copying());
  RowTransfer& rest = group_->rest_;
  const auto me = static_cast<size_t>(place_);
  for (int k = 0; k < size(); ++k) {
    const auto at = static_cast<size_t>(k);
    if (k == place_) continue;
    int64_t expected = 0, leaving = 0;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const SharedSequence& q = sequences_[i];
      expected += Common(q.pieces[at], pieces[i][me]).rows();
      leaving += Common(q.pieces[me], pieces[i][at]).rows();
    }
    rest.Expect(k, expected * state.bytes());
    std::byte* out = rest.Out(k, leaving * state.bytes());
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const SharedSequence& q = sequences_[i];
      const Piece rows = Common(q.pieces[me], pieces[i][at]);
      for (int64_t p = rows.begin; p < rows.end; ++p)
        out = state.Read(q.first_row + p - q.pieces[me].begin, out);
    }
  }
  copying().Copy(run);
  Note(rest.Exchange());
  group_->counts_.bytes += rest.bytes_out();
}

namespace {

// Rows of a chunk in front of those that the decoder runs.
int64_t SkippedRows(const SequenceRows& s) {
  return std::clamp<int64_t>(s.decoder_from - s.start, 0, s.rows);
}

}  // namespace

// That this rank runs from now on.
int64_t ContextStep::RowsBehind(const Run& run,
                                const std::vector<std::vector<Piece>>& pieces) const {
  int64_t rows = 0;
  for (const SequenceRows& s : run.batch.sequences)
    if (s.shared < 0) rows += s.rows - SkippedRows(s);
  for (const std::vector<Piece>& of_sequence : pieces)
    rows += of_sequence[static_cast<size_t>(place_)].rows();
  return rows;
}

// The batch of what this rank runs from now on, and the state of its rows one behind the other.
Batch ContextStep::TakeRows(Run& run, const std::vector<std::vector<Piece>>& pieces,
                            std::byte* stage) {
  const RowState state(run, &copying());
  Batch next;
  for (SequenceRows s : run.batch.sequences) {
    if (s.shared >= 0) continue;
    const int64_t skipped = SkippedRows(s);
    for (int64_t r = s.first_row + skipped; r < s.first_row + s.rows; ++r)
      stage = state.Read(r, stage);
    const auto first = static_cast<size_t>(s.first_row + skipped);
    const auto count = static_cast<size_t>(s.rows - skipped);
    s.start += skipped;
    next.Append(s, std::span(run.batch.ids).subspan(first, count),
                std::span(run.batch.image).subspan(first, count));
  }
  std::vector<const std::byte*> from;
  for (int k = 0; k < size(); ++k) from.push_back(group_->rest_.in(k));
  for (size_t i = 0; i < sequences_.size(); ++i)
    stage = TakePiece(state, i, pieces[i][static_cast<size_t>(place_)], stage, &from, &next);
  copying().Copy(run);
  return next;
}

template <typename State>
std::byte* ContextStep::TakePiece(const State& state, size_t i, const Piece& piece,
                                  std::byte* stage, std::vector<const std::byte*>* from,
                                  Batch* next) {
  SharedSequence& q = sequences_[i];
  for (size_t k = 0; k < q.pieces.size(); ++k) {
    const Piece rows = Common(q.pieces[k], piece);
    for (int64_t p = rows.begin; p < rows.end; ++p) {
      if (k == static_cast<size_t>(place_)) {
        stage = state.Read(q.first_row + p - q.pieces[k].begin, stage);
      } else {
        stage = state.Take((*from)[k], stage);
        (*from)[k] += state.bytes();
      }
    }
  }
  if (!piece.empty()) AppendPiece(i, piece, next);
  return stage;
}

bool ContextStep::Cut(Run& run) {
  End(run);
  const std::vector<std::vector<Piece>> pieces = CutAnew(run);
  if (pieces.empty()) return false;
  SendRows(run, pieces);
  if (!ok()) return false;
  const RowState state(run, &copying());
  const int64_t bytes = RowsBehind(run, pieces) * state.bytes();
  if (group_->stage_.bytes() < bytes) group_->stage_ = tensor::Buffer(bytes, run.memory());
  Batch next = TakeRows(run, pieces, group_->stage_.data());
  const std::byte* row = group_->stage_.data();
  for (int64_t r = 0; r < next.rows(); ++r) row = state.Write(r, row);
  copying().Copy(run);
  next.SetAngles(run.parts.frequencies);
  run.batch = std::move(next);
  for (size_t i = 0; i < sequences_.size(); ++i) {
    SharedSequence& q = sequences_[i];
    q.start = std::clamp(q.decoder_from, q.start, q.end);
    q.pieces = pieces[i];
  }
  return true;
}

void ContextStep::Clip(const Run& run) {
  for (SharedSequence& q : sequences_) {
    q.start = std::clamp(q.decoder_from, q.start, q.end);
    for (Piece& piece : q.pieces) piece.begin = std::max(piece.begin, q.start);
  }
  for (const SequenceRows& s : run.batch.sequences)
    if (s.shared >= 0) sequences_[static_cast<size_t>(s.shared)].first_row = s.first_row;
}

}  // namespace thalweg::model
