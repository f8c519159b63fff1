// Who computes a prompt's rows changes no bit: logits of every row, caches and bounded state,
// blocks that are drafted and rows that are decoded behind a prompt are those of one rank alone,
// for groups of 1, 2, 3, 4 and 8 ranks that cut every chunk of every rank's prompts into pieces:
// ragged batches, pieces shorter than the window, more ranks than rows, odd chunks, prompts that
// begin behind a shared prefix or a checkpoint, rows that the encoder alone runs, sequences that
// end and begin again, more sequences than others keep copies of, experts over the same ranks. And
// the check can fail: a window row that is lost on its way is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "comm/test_ranks.h"
#include "kernels/backends.h"
#include "kernels/test_kit.h"
#include "model/context_parallel.h"
#include "model/expert_parallel.h"
#include "parallel/context_split.h"
#include "tests/invariance/checkpoints.h"

namespace thalweg::tests {
namespace {

using kvpool::SequenceId;

constexpr int64_t kBlocks = 96;
constexpr int64_t kSequences = 12;

// What a rank saw: logits, drafts, bytes of its state.
using Seen = std::vector<std::vector<std::byte>>;

template <typename T>
void Add(const std::vector<T>& values, Seen* seen) {
  const auto bytes = std::as_bytes(std::span(values));
  seen->emplace_back(bytes.begin(), bytes.end());
}

struct Sizes {
  int ranks = 1;
  bool experts = false;  // over the ranks, too
  int64_t max_rows = 128;
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
    if (comm != nullptr) {
      auto made = model::ContextParallel::Make(comm, {.first = 0, .size = comm->size()},
                                               {.least_rows = 1, .least_gain = 0});
      EXPECT_TRUE(made.ok()) << made.status().ToString();
      context_ = std::move(*made);
      options.context_parallel = context_.get();
      options.context_ranks = comm->size();
    }
    if (sizes.experts && comm != nullptr) {
      const checkpoint::Config& c = checkpoint.config();
      const auto shape = parallel::ShapeFor(c.n_routed_experts, comm->size(), 0);
      auto made = model::ExpertParallel::Make(comm, parallel::InOrder(*shape, c.num_hidden_layers));
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
  void Step() {
    model::StepOutput output;
    const bool any = !chunks_.empty();
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
  std::vector<model::Chunk> chunks_;
  std::vector<uint8_t> image_;
  Seen seen_;
};

void Rank::SeeRows(SequenceId id, int owner) {
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
void Rank::SeeState(SequenceId id) {
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

// What every rank does, step by step; a script calls Step as often on every rank.
using Script = std::function<void(Rank&)>;

Seen Alone(const std::string& name, const kernels::Ops& ops, const Sizes& sizes, int number,
           const Script& script) {
  Rank rank(Shipped(name), ops, sizes, nullptr);
  rank.set_number(number);
  script(rank);
  return rank.seen();
}

std::vector<Seen> Together(const std::string& name, const kernels::Ops& ops, const Sizes& sizes,
                           const Script& script) {
  std::vector<Seen> seen(static_cast<size_t>(sizes.ranks));
  const checkpoint::Checkpoint& checkpoint = Shipped(name);
  comm::RunRanks(sizes.ranks, [&](comm::Communicator& comm) {
    Rank rank(checkpoint, ops, sizes, &comm);
    script(rank);
    seen[static_cast<size_t>(comm.rank())] = rank.seen();
    EXPECT_EQ(rank.context()->counts().steps > 0, sizes.ranks > 1);
  });
  return seen;
}

size_t FirstDifference(const Seen& a, const Seen& b) {
  if (a.size() != b.size()) return std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
}

void ExpectSameAsAlone(const std::string& name, const kernels::Ops& ops, const Sizes& sizes,
                       const Script& script) {
  const std::vector<Seen> together = Together(name, ops, sizes, script);
  for (int r = 0; r < sizes.ranks; ++r) {
    const Seen alone = Alone(name, ops, sizes, r, script);
    EXPECT_EQ(FirstDifference(together[static_cast<size_t>(r)], alone), alone.size())
        << name << ", rank " << r << " of " << sizes.ranks;
  }
}

const kernels::Ops& Exact() { return kernels::CpuOps(kernels::Numerics::kExact); }
const kernels::Ops& Fast() { return kernels::CpuOps(kernels::Numerics::kFast); }
constexpr int kWorlds[] = {1, 2, 3, 4, 8};

// Rank 0 reads a long prompt in chunks of odd and even lengths, long and short, then decodes.
void LongPrompt(Rank& rank) {
  const std::vector<int32_t> text = SomeText(rank.config(), 330, 5);
  const bool reads = rank.number() == 0;
  const SequenceId id = rank.Open();
  for (const int64_t rows : {101, 64, 3, 120, 1, 37, 1, 1, 1}) {
    if (reads) rank.Read(id, text, rows);
    rank.Step();
    if (reads) rank.SeeState(id);
    if (reads) rank.Draft(id, text.back());
  }
}

TEST(ContextParallel, ALongPromptOnEveryNumberOfRanks) {
  for (const int ranks : kWorlds) {
    ExpectSameAsAlone("tiny-a", Exact(), {.ranks = ranks}, LongPrompt);
    ExpectSameAsAlone("tiny-b", Exact(), {.ranks = ranks}, LongPrompt);
  }
}

TEST(ContextParallel, NanoOnEveryNumberOfRanks) {
  for (const int ranks : kWorlds) ExpectSameAsAlone("nano", Fast(), {.ranks = ranks}, LongPrompt);
}

TEST(ContextParallel, ReferenceBodiesToo) {
  ExpectSameAsAlone("tiny-b", kernels::ReferenceOps(), {.ranks = 3}, LongPrompt);
}

TEST(ContextParallel, BesideExpertsOverTheSameRanks) {
  for (const int ranks : {2, 3, 8})
    ExpectSameAsAlone("tiny-a", Exact(), {.ranks = ranks, .experts = true}, LongPrompt);
}

}  // namespace
}  // namespace thalweg::tests
