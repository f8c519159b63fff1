// One rank of a group that shares the rows of prompts: its model, what it reads in a step, and all
// that it has seen, as bytes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "kernels/backends.h"
#include "model/context_parallel.h"
#include "model/expert_parallel.h"
#include "tests/device/pretend.h"
#include "tests/invariance/checkpoints.h"

namespace thalweg::tests {

using kvpool::SequenceId;

inline constexpr int64_t kBlocks = 96;
inline constexpr int64_t kSequences = 12;

// What a rank saw: logits, drafts, bytes of its state.
using Seen = std::vector<std::vector<std::byte>>;

template <typename T>
inline void Add(const std::vector<T>& values, Seen* seen) {
  const auto bytes = std::as_bytes(std::span(values));
  seen->emplace_back(bytes.begin(), bytes.end());
}

struct Sizes {
  int ranks = 1;
  bool experts = false;    // over the ranks, too
  int64_t least_rows = 1;  // of a chunk that is shared
  int64_t max_rows = 128;
  bool devices = false;  // rows of a device travel without host memory
};

// One rank's model, and what it does in a step: fills `chunks`, which live until the step is done.
class Rank {
 public:
  Rank(const checkpoint::Checkpoint& checkpoint, const kernels::Ops& ops, const Sizes& sizes,
       comm::Communicator* comm)
      : team_(1), number_(comm != nullptr ? comm->rank() : 0) {
    model::ModelOptions options = OptionsFor(ops, 1, kSequences, 0);
    options.team = &team_;
    options.repack = model::Repack::kNever;
    options.max_rows = sizes.max_rows;
    options.max_tokens = kBlocks * 64;
    options.blocks_from_outside = true;
    options.checkpoints = 2;
    options.graphs = false;  // a device that is pretended records none
    comm::Communicator* devices = sizes.devices ? comm : nullptr;
    if (comm != nullptr) {
      auto made =
          model::ContextParallel::Make(comm, {.first = 0, .size = comm->size()},
                                       {.least_rows = sizes.least_rows, .least_gain = 0}, devices);
      EXPECT_TRUE(made.ok()) << made.status().ToString();
      context_ = std::move(*made);
      options.context_parallel = context_.get();
      options.context_ranks = comm->size();
    }
    if (sizes.experts && comm != nullptr) {
      const checkpoint::Config& c = checkpoint.config();
      const auto shape = parallel::ShapeFor(c.n_routed_experts, comm->size(), 0);
      auto made = model::ExpertParallel::Make(comm, parallel::InOrder(*shape, c.num_hidden_layers),
                                              devices, &PretendedExchange());
      experts_ = std::move(*made);
      options.expert_parallel = experts_.get();
    }
    model_ = LoadModel(checkpoint, options);
  }

  model::Model& model() { return *model_; }
  kvpool::Pool& pool() { return model_->pool(); }
  const checkpoint::Config& config() const { return model_->config(); }
  const model::ContextParallel* context() const { return context_.get(); }
  int number() const { return number_; }
  void set_number(int number) { number_ = number; }

  SequenceId Open() { return pool().Open().value(); }
  // Blocks until there are enough for `tokens`; `first`: those of another sequence.
  void Attach(SequenceId id, int64_t tokens, std::span<const int32_t> first = {}) {
    ASSERT_TRUE(pool().Attach(id, first).ok());
    while (static_cast<int64_t>(pool().BlocksOf(id).size()) * 64 < tokens) {
      const int32_t block = next_block_++ % static_cast<int32_t>(kBlocks);
      ASSERT_TRUE(pool().Attach(id, {&block, 1}).ok());
    }
  }
  // The next rows of a text, in the next step.
  void Read(SequenceId id, const std::vector<int32_t>& text, int64_t rows,
            model::LogitRows logits = model::LogitRows::kAll, int64_t decoder_from = 0) {
    const int64_t at = pool().length(id);
    Attach(id, at + rows);
    chunks_.push_back(
        {.sequence = id,
         .tokens = std::span(text).subspan(static_cast<size_t>(at), static_cast<size_t>(rows)),
         .decoder_from = decoder_from,
         .logits = logits});
  }
  // Likewise with marks of an image in the middle.
  void ReadImage(SequenceId id, const std::vector<int32_t>& text, int64_t rows) {
    Read(id, text, rows);
    image_.assign(static_cast<size_t>(rows), 0);
    std::fill(image_.begin() + rows / 3, image_.begin() + rows / 2, uint8_t{1});
    chunks_.back().image = image_;
  }
  // Where there are others, each comes when it likes.
  void Step() {
    model::StepOutput output;
    const bool any = !chunks_.empty();
    if (context_ != nullptr && (steps_++ + number_) % 3 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(number_ % 3));
    const Status status = any                   ? model_->Step(chunks_, &output)
                          : context_ != nullptr ? model_->Idle()
                                                : Status();
    ASSERT_TRUE(status.ok()) << status.ToString();
    if (any) Add(output.logits, &seen_);
    chunks_.clear();
  }
  void Draft(SequenceId id, int32_t token) {
    if (!model_->has_draft()) return;
    model::DraftOutput output;
    const model::DraftRequest request{.sequence = id, .token = token};
    ASSERT_TRUE(model_->Draft({&request, 1}, &output).ok());
    Add(output.logits, &seen_);
    Add(output.confidence, &seen_);
  }
  void SeeState(SequenceId id);
  const Seen& seen() const { return seen_; }

 private:
  void SeeRows(SequenceId id, int owner);

  base::ThreadTeam team_;
  int number_;
  std::unique_ptr<model::ContextParallel> context_;
  std::unique_ptr<model::ExpertParallel> experts_;
  std::unique_ptr<model::Model> model_;
  int32_t next_block_ = 0;
  int steps_ = 0;
  std::vector<model::Chunk> chunks_;
  std::vector<uint8_t> image_;
  Seen seen_;
};

inline void Rank::SeeRows(SequenceId id, int owner) {
  const kvpool::Geometry& g = pool().geometry();
  const int64_t ratio = g.owners[static_cast<size_t>(owner)].ratio;
  const int64_t length = pool().length(id);
  std::vector<uint8_t> rows;
  for (const tensor::PagedRows& paged : {pool().MainRows(id, owner), pool().IndexRows(id, owner)})
    for (int64_t i = 0; i < length / ratio; ++i)
      rows.insert(rows.end(), paged.Row(i), paged.Row(i) + paged.row_bytes);
  Add(rows, &seen_);
  if (ratio == 1) return;
  std::vector<float> halves;
  const int64_t last = (length + 1) / 2;
  for (int64_t i = std::max<int64_t>(0, last - g.PendingRows()); i < last; ++i) {
    const kvpool::PendingGroup half = pool().Pending(id, owner, i);
    halves.insert(halves.end(), half.kv, half.kv + config().head_dim);
    halves.insert(halves.end(), half.score, half.score + config().head_dim);
  }
  Add(halves, &seen_);
}

// Everything of a sequence that a later row may look at.
inline void Rank::SeeState(SequenceId id) {
  const kvpool::Geometry& g = pool().geometry();
  const int64_t length = pool().length(id);
  const int64_t bytes = g.WindowRowBytes();
  Add(std::vector<int64_t>{length, pool().encoder_floor(id), pool().decoder_floor(id),
                           pool().draft_floor(id), pool().write_from(id)},
      &seen_);
  for (int owner = 0; owner < static_cast<int>(g.owners.size()); ++owner) SeeRows(id, owner);
  const int64_t layers = model_->has_draft() ? g.window_layers : config().num_hidden_layers;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<uint8_t> rows;
    const int64_t floor = layer < g.encoder_layers             ? pool().encoder_floor(id)
                          : layer < config().num_hidden_layers ? pool().decoder_floor(id)
                                                               : pool().draft_floor(id);
    for (int64_t p = std::max(floor, length - g.RingRows()); p < length; ++p) {
      const uint8_t* row = pool().Ring(id, layer) + p % g.RingRows() * bytes;
      rows.insert(rows.end(), row, row + bytes);
    }
    Add(rows, &seen_);
  }
  if (!config().HasEngram()) return;
  std::vector<int32_t> history;
  for (int64_t p = std::max<int64_t>(0, length - g.HistoryRows()); p < length; ++p)
    history.push_back(pool().History(id, p));
  Add(history, &seen_);
}

}  // namespace thalweg::tests
