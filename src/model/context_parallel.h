// The rows of prompts over the ranks of an attention group (spec/decoding.md 7.4, docs/ranks.md):
// every rank of the group goes through every step, with chunks of its own sequences or none. Before
// the layers ranks say what they have, and long chunks are cut into pieces of equal cost, one for
// each rank. In every layer a piece gets the window rows just before it, and all ranks get the
// compressed rows and index keys that any of them makes; the sequence's own rank has logits, caches
// and bounded state afterwards as if it had computed every row. No bit depends on who computes a
// row.
//
// The others keep copies of a sequence while its prompt goes on: compressed rows in places of their
// own for each block of the other rank, so that blocks that several prompts share are sent once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "kvpool/pool.h"
#include "model/batch.h"
#include "model/context_transfer.h"
#include "parallel/context_split.h"
#include "parallel/mesh.h"

namespace thalweg::model {

struct Run;
class ContextStep;

struct ContextOptions {
  int64_t least_rows = 32;  // a chunk of fewer stays with its rank
  // Chunks are shared where the busiest rank has more than this many times the mean to do.
  double least_gain = 1.05;
};

// Sequences of other ranks that one keeps copies of, and chunks that one rank offers in a step.
inline constexpr int64_t kContextCopies = 8;
inline constexpr int64_t kMostOfferBytes = int64_t{1} << 33;  // of what one says before a step

// What a rank has computed since the beginning.
struct ContextCounts {
  int64_t steps = 0;        // in which rows were shared
  int64_t shared_rows = 0;  // of all ranks, in those steps
  int64_t rows = 0;         // of this rank, in those steps
  int64_t work = 0;         // of those, in multiplications
  int64_t bytes = 0;        // sent in those steps, logits and what begins a copy included
};

class ContextParallel {
 public:
  // `ranks` is of the host, outlives this, and has the ranks of `group`, of which this is one.
  // devices: the same ranks where each is a device of its own, whose rows then travel from device
  // to device; null: rows of a device go through host memory. It outlives this, too.
  static Result<std::unique_ptr<ContextParallel>> Make(comm::Communicator* ranks,
                                                       parallel::Group group,
                                                       const ContextOptions& options = {},
                                                       comm::Communicator* devices = nullptr);
  ~ContextParallel();

  int64_t size() const { return group_.size; }
  const Status& status() const { return status_; }
  // As of the last step; any thread may ask.
  ContextCounts counts() const;

  // What a rank says before a step: fixed in length.
  struct Offer {
    int32_t sequence = 0;
    int32_t anew = 0;
    int64_t start = 0, rows = 0, decoder_from = 0;
  };
  struct Hello {
    int64_t rows = 0;  // that it keeps
    int64_t load = 0;  // of those
    int32_t draft_context = 0;
    int32_t offers = 0;
    std::array<Offer, kContextCopies> offered = {};
  };

  // Before the layers of a step: agrees with the others about the rows, fills the run's batch with
  // what this rank runs, and returns what it shares; null: nothing, the batch holds the chunks.
  // After an error, which status() returns, it asks nobody any more.
  std::unique_ptr<ContextStep> Begin(Run& run, std::span<const Chunk> chunks);
  // Behind it, when lengths are committed. `step` may be null.
  void Commit(kvpool::Pool& pool, const ContextStep* step);

 private:
  friend class ContextStep;

  // A sequence that the others have a copy of; the same table on all ranks.
  struct Copy {
    int owner = -1;
    int32_t sequence = -1;
    int64_t length = 0;
    int64_t blocks = 0;   // entries of its block table that they have
    int64_t used = 0;     // step
    int64_t version = 0;  // of this rank's own: of the pool's
  };
  struct Decision;

  ContextParallel(comm::Communicator* ranks, comm::Communicator* devices, parallel::Group group,
                  const ContextOptions& options);
  int place() const { return group_.PlaceOf(ranks_->rank()); }
  Copy* Find(int owner, int32_t sequence);
  bool Current(const kvpool::Pool& pool, kvpool::SequenceId id);

  Hello Greet(const Run& run, std::span<const Chunk> chunks, std::vector<size_t>* offered);
  Status Meet(const Hello& own, std::vector<Hello>* all);
  Status CheckHello(const Run& run, const Hello& hello) const;
  Result<Decision> Decide(const Run& run, const std::vector<Hello>& hellos);
  void TakeCopies(const std::vector<Hello>& hellos, Decision* decision);
  Result<std::unique_ptr<ContextStep>> Agree(Run& run, std::span<const Chunk> chunks);
  void KeepValid(const kvpool::Pool& pool, kvpool::SequenceId id, int64_t begin, int64_t end,
                 bool shared);
  Status Fail(Status status);

  comm::Communicator* ranks_;
  parallel::Group group_;
  ContextOptions options_;
  ContextCounts counts_;
  mutable std::mutex mutex_;  // of what `counts` tells
  ContextCounts told_;
  Status status_;
  int64_t step_ = 0;
  std::array<Copy, kContextCopies> copies_;
  // By block of this rank: from its beginning, tokens whose compressed rows the others have.
  std::vector<int64_t> valid_;

  // What the layers of a step move; memory of a device is not taken anew for each.
  std::array<RowTransfer, 2> window_;  // in turns, so that a rank may be two layers ahead
  RowTransfer groups_, rest_;
  RowCopies copying_;
  tensor::Buffer stage_;  // residual state at the cut
};

}  // namespace thalweg::model
