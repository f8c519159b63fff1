// DeepSeek-V4.1-Flash on one rank: weights, caches of several sequences, and the forward of one
// step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_team.h"
#include "checkpoint/checkpoint.h"
#include "kernels/ops.h"
#include "kvpool/pool.h"
#include "model/batch.h"
#include "model/probe.h"

namespace thalweg::model {

struct Weights;
class ExpertParallel;
class ContextParallel;
class ExpertStore;

// Whether weights are laid out anew at load for the backend (model/packing.h).
enum class Repack {
  kAuto,    // when the machine has the memory
  kAlways,  // or the load fails
  kNever,   // weights are multiplied straight from the mapped file
};

struct ModelOptions {
  const kernels::Ops* ops = nullptr;       // the backend; not owned
  const base::ThreadTeam* team = nullptr;  // not owned
  int64_t max_rows = 512;                  // rows of one step, over all sequences
  int64_t max_sequences = 1;               // open at a time
  int64_t max_tokens = 0;   // cached tokens over all sequences; 0: one context of full length
  int64_t checkpoints = 0;  // copies of bounded state (kvpool/pool.h)
  bool blocks_from_outside = false;  // who holds which cache block is said from outside
  bool graphs = true;                // steps of few rows are recorded, where the backend can
  Repack repack = Repack::kAuto;
  tensor::RowFormat activation_format = tensor::RowFormat::kFp8E8M0;
  tensor::RowFormat window_format = tensor::RowFormat::kFp8E8M0;
  tensor::RowFormat main_format = tensor::RowFormat::kFp4E4M3;
  tensor::RowFormat index_format = tensor::RowFormat::kFp4E8M0;
  // Routed experts over the ranks of a group (model/expert_parallel.h); not owned; null: this rank
  // has all. Ranks go through every step together: one without work calls Idle.
  ExpertParallel* expert_parallel = nullptr;
  // Called at the beginning of each Step, refused ones too: tells the other ranks to go along. An
  // error is one of the step. Empty: they are told by others.
  std::function<Status()> before_step = {};
  // For plans of memory: experts of the target's layers that are packed on this rank; 0: all.
  int64_t expert_blocks = 0;
  // Rows of prompts over the ranks of a group (model/context_parallel.h); not owned; null: this
  // rank runs its own. Likewise all go through every step together. Needs blocks_from_outside.
  ContextParallel* context_parallel = nullptr;
  int64_t context_ranks = 1;  // of the group: each has room for the compressed rows of all
  bool experts_move = false;  // packed weights have room for it (model/expert_moves.h)
};

// Bytes by purpose, before anything is allocated. The draft module is counted where there is one.
struct MemoryPlan {
  int64_t weights_mapped = 0;  // the checkpoint without its vision tower, as released
  // The backend's layout of them, 0 without repacking; of a device backend all that is uploaded.
  int64_t packed_weights = 0;
  // Those of them that a device can also read from the host: tables of Engram (model/upload.h).
  int64_t movable_tables = 0;
  int64_t cache_blocks = 0;
  int64_t sequence_slots = 0;
  int64_t checkpoints = 0;  // when all are in use
  int64_t workspace = 0;
  // Of a device: scratch memory of ops, lists, results, rows that fill up a step, recordings. An
  // upper bound.
  int64_t device_work = 0;
};
// What a model of this config takes; with Repack::kAuto as if there were memory enough.
MemoryPlan PlanMemory(const checkpoint::Config& config, const ModelOptions& options);

struct StepOutput {
  // Logits of the rows asked for, chunk by chunk, ascending positions: [rows, vocab], fp32.
  std::vector<float> logits;
  int64_t rows = 0;
  // Of a launched step: the token that was chosen for each of these rows, or kernels::kNotFinite,
  // kNothingLeft, kNoToken. Empty when no chunk asked.
  std::vector<int32_t> chosen;
  // Likewise, of each chunk that tokens were chosen for: how many of its drafts were. Empty where
  // no chunk ran on drafts and none was drafted for.
  std::vector<int32_t> accepted;
};

// Which tokens may come behind a row.
struct RowMask {
  const uint32_t* words = nullptr;  // [ceil(vocab / 32)]: bit t % 32 of word t / 32; null: any
  bool reached = true;              // false: no token is chosen
};

// What is done behind a launched forward.
struct Choosing {
  std::span<const RowMask> masks = {};  // of each row with logits; empty: any token may come
  // Of each chunk: whether a block is drafted behind the token that comes out of it. Empty: of
  // none.
  std::span<const uint8_t> draft = {};
};

// Drafts that were made behind a launched step.
struct LaunchedDrafts {
  std::vector<int32_t> tokens;  // [slots, block]: the newest of every slot
  int64_t sequences = 0;
  std::vector<float> confidence;  // [block, sequences], of the chunks that were drafted for: raw
};

// Draft the block that follows `token`, which belongs at the sequence's current length.
struct DraftRequest {
  kvpool::SequenceId sequence = {};
  int32_t token = 0;
  // The token of slot 0, 1, ... from its logits [vocab], in order; null: the most probable.
  std::function<int32_t(int slot, std::span<const float> logits)> choose = {};
};

struct DraftOutput {
  std::vector<int32_t> tokens;    // [requests, block]
  std::vector<float> confidence;  // [requests, block]: raw logits
  std::vector<float> logits;      // [requests, block, vocab], Markov term included
};

class Model {
 public:
  // The checkpoint must outlive the model. Errors: what BindWeights refuses, a bad token map, too
  // few rows.
  static Result<std::unique_ptr<Model>> Load(const checkpoint::Checkpoint& checkpoint,
                                             const ModelOptions& options);

  // The same from weights in the backend's memory, multiplied as they come: packed already, or in
  // their stored forms. The config is valid and has no Engram; the weights must outlive the model.
  static Result<std::unique_ptr<Model>> FromWeights(const checkpoint::Config& config,
                                                    Weights weights, const ModelOptions& options);

  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  const checkpoint::Config& config() const;
  const ModelOptions& options() const;
  // Open, close, length and truncation of sequences.
  kvpool::Pool& pool();
  // In whose order its ops run.
  tensor::Stream stream() const;
  // Begins an open, empty sequence behind tokens whose compressed rows are in its blocks already.
  // `before` are those tokens, beginning.length of them, with their image marks (empty: all text):
  // the Engram hash looks back on the last. kInvalidArgument: an id outside the vocabulary.
  Status Begin(kvpool::SequenceId id, const kvpool::Beginning& beginning,
               std::span<const int32_t> before, std::span<const uint8_t> image = {});
  bool has_draft() const;
  // Bytes of repacked weights; 0: they are used as stored.
  int64_t packed_bytes() const;
  // Routed experts of a layer, and blocks for packed ones that come and go, between two steps.
  std::span<kernels::FeedForward> experts(int layer);
  ExpertStore& expert_store();

  // Appends the chunks' tokens to their sequences and computes the logits asked for. Chunks belong
  // to different sequences; a row's bits depend on its own sequence alone. On error nothing has
  // changed: kInvalidArgument (a token outside the vocabulary, empty chunk, a sequence named twice,
  // too many rows, logits of rows the decoder does not run), kOutOfRange (context length),
  // kResourceExhausted (cache blocks).
  Status Step(std::span<const Chunk> chunks, StepOutput* output, Probe* probe = nullptr);

  // The step of a rank that has no rows while others of its group do: it computes their rows on its
  // experts.
  Status Idle();

  // Whether Launch can run a step that wants so many logits: on a device that runs beside the host.
  bool CanLaunch(int64_t logit_rows) const;
  int64_t MostLaunchRows() const;  // with logits, where it can
  // The forward of a step, put on the device's queue; lengths grow now. Choose completes it. At
  // most two steps may be under way; the next Step or Draft comes when none is. Errors are those of
  // Step.
  Status Launch(std::span<const Chunk> chunks);
  // Tokens of the step that was launched last, by Chunk::choose, and drafts behind them: before the
  // next is launched.
  void Choose(const Choosing& choosing);
  bool Done() const;  // whether what is collected next is done
  // Results of the oldest step, as soon as its tokens are chosen; drafts behind it may still be
  // made. An error is one of the device, which loses every sequence of the step.
  Status Collect(StepOutput* output);
  // Whether drafts were made behind the step that was collected last, and they: before the next
  // Collect.
  bool HasDrafts() const;
  Status CollectDrafts(LaunchedDrafts* output);
  // What Chunk::drafts_at says for a slot's drafts.
  int32_t DraftsAt(int32_t slot) const;
  // The token at a position whose row was launched as Chunk::newest_slot: for what the host hashes
  // later, and for a checkpoint that was saved with it.
  void Learn(kvpool::SequenceId id, int64_t position, int32_t token);
  void LearnInCheckpoint(int32_t checkpoint, int64_t position, int32_t token);
  // Whether steps are recorded from now on; not on the host.
  void SetGraphs(bool on);

  // One draft block per request (spec/model.md 2.8). Needs at least one token in each
  // sequence. Leaves the caches as they are.
  Status Draft(std::span<const DraftRequest> requests, DraftOutput* output, Probe* probe = nullptr);

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thalweg::model
