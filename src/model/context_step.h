// One step whose rows several ranks share: the pieces, and what ranks hand one another in every
// layer (docs/ranks.md, "Context parallel"). Internal to the room.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "model/context_parallel.h"
#include "parallel/context_offer.h"

namespace thalweg::model {

// Consecutive positions.
struct Piece {
  int64_t begin = 0;
  int64_t end = 0;
  bool empty() const { return begin >= end; }
  int64_t rows() const { return empty() ? 0 : end - begin; }
};

// A chunk of one rank whose rows several run.
struct SharedSequence {
  int owner = 0;     // place in the group
  size_t offer = 0;  // among the owner's
  size_t copy = 0;   // in the table of copies
  kvpool::SequenceId id = {};
  int64_t start = 0;  // of the rows that the layers under way run
  int64_t end = 0;
  int64_t decoder_from = 0;
  LogitRows logits = LogitRows::kNone;
  std::vector<Piece> pieces = {};  // of those rows, by place, ascending
  int64_t first_row = 0;           // of this rank's piece in the batch
  parallel::OfferedChunk chunk = {};

  int64_t LogitRowsOf(int place) const;
};

class ContextStep {
 public:
  explicit ContextStep(ContextParallel* group);

  // Rows of Engram look back on tokens before a piece; and the ids of the newest are kept.
  void PrepareHistory(Run& run) const;
  void KeepHistory(Run& run) const;

  // In a layer ranks wait for earlier ones alone. Compressed rows, index keys and half groups of an
  // owner layer: begun when this rank's are made, finished when those of earlier rows are there.
  void BeginGroups(Run& run, int layer);
  void FinishGroups(Run& run);
  // Window rows of a layer that later pieces look back on: begun when this rank's are made;
  // finished when the ring holds what its own piece looks back on.
  void BeginWindow(Run& run, int layer);
  void FinishWindow(Run& run, int layer);
  // Behind attention: the ring takes what the next step looks back on, of this rank's rows. For
  // every layer, ascending.
  void CommitWindow(Run& run, int layer);
  // What has not been exchanged yet of the layers so far.
  void End(Run& run);

  // At the decoder's first layer (context_cut.cc): rows that it does not run leave the batch, and
  // the others are shared out anew. False: the pieces are still what they were, and are clipped
  // when the batch is.
  bool Cut(Run& run);
  void Clip(const Run& run);

  // Where the head writes; then logits go to the ranks whose sequences they are of.
  std::vector<float>* logits() { return &logits_; }
  void ShareLogits(Run& run, std::span<const Chunk> chunks, std::vector<float>* output);

 private:
  friend class ContextParallel;

  // Before the layers (context_offers.cc).
  Status ExchangeOffers(Run& run, std::span<const Chunk> chunks,
                        const std::vector<ContextParallel::Hello>& hellos);
  Status Spread(const std::vector<std::byte>& body);
  Status ReadOffers(Run& run, const std::vector<ContextParallel::Hello>& hellos, int owner,
                    std::span<const std::byte> bytes);
  Status CheckOffer(const Run& run, const SharedSequence& q,
                    const ContextParallel::Offer& said) const;
  parallel::OfferedChunk Offer(Run& run, const Chunk& chunk, bool anew, int64_t table) const;
  void AddStaleRows(Run& run, std::span<const int32_t> blocks, parallel::OfferedChunk* out) const;
  void TakeOffer(Run& run, const SharedSequence& q) const;
  void FillBatch(Run& run, std::span<const Chunk> chunks);
  // This rank's piece of a sequence becomes the batch's last rows.
  void AppendPiece(size_t sequence, const Piece& piece, Batch* batch);
  void Assemble(std::span<const Chunk> chunks, const std::vector<std::span<const float>>& kept,
                const std::vector<std::span<const float>>& own, size_t vocab,
                std::vector<float>* output) const;

  // At the decoder's first layer.
  std::vector<std::vector<Piece>> CutAnew(const Run& run) const;
  void SendRows(Run& run, const std::vector<std::vector<Piece>>& pieces);
  int64_t RowsBehind(const Run& run, const std::vector<std::vector<Piece>>& pieces) const;
  Batch TakeRows(Run& run, const std::vector<std::vector<Piece>>& pieces, std::byte* stage);
  template <typename State>
  std::byte* TakePiece(const State& state, size_t sequence, const Piece& piece, std::byte* stage,
                       std::vector<const std::byte*>* from, Batch* next);

  bool ok() const { return group_->status().ok(); }
  void Note(Status status);
  int size() const { return group_->group_.size; }
  Piece Halo(const Run& run, const SharedSequence& q, int from, int to) const;
  Piece Tail(const Run& run, const SharedSequence& q, int from) const;
  const std::byte* OwnWindow(const Run& run, const SharedSequence& q, int64_t position) const;
  int64_t GroupBytes(const Run& run, int layer, int from) const;
  std::byte* AddGroups(Run& run, int layer, std::byte* message) const;
  const std::byte* TakeGroups(Run& run, int layer, int from, const std::byte* message) const;
  template <typename Move>
  void EachTailRow(const Run& run, int from, int to, const Move& move) const;
  void PutRest(Run& run, int to) const;
  int64_t RestBytes(const Run& run, int from, int to) const;
  void TakeRest(Run& run, int from) const;
  RowCopies& copying() const { return group_->copying_; }

  ContextParallel* group_;
  int place_;
  std::vector<SharedSequence> sequences_;
  std::vector<int64_t> kept_;       // by place: rows that are not shared
  std::vector<int32_t> shared_of_;  // by chunk of this rank: index into sequences_, or -1
  Transfer heads_;
  bool groups_due_ = false;  // of earlier ranks
  std::vector<int> owners_;  // layers whose groups later ranks have not sent to earlier ones
  int committed_ = 0, exchanged_ = 0;  // layers whose windows are in rings; in those of all ranks
  std::vector<float> logits_;
};

}  // namespace thalweg::model
