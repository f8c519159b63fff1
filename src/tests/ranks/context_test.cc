// Who computes a prompt's rows changes no bit: logits of every row, caches and bounded state,
// blocks that are drafted and rows that are decoded behind a prompt are those of one rank alone,
// for groups of 1, 2, 3, 4 and 8 ranks that cut every chunk of every rank's prompts into pieces:
// ragged batches, pieces shorter than the window, more ranks than rows, odd chunks, prompts that
// begin behind a shared prefix or a checkpoint, rows that the encoder alone runs, sequences that
// end and begin again, more sequences than others keep copies of, experts over the same ranks. And
// the check can fail: a row of another rank's copy that was harmed is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

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
  bool experts = false;    // over the ranks, too
  int64_t least_rows = 1;  // of a chunk that is shared
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
                                               {.least_rows = sizes.least_rows, .least_gain = 0});
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

void ExpectSameAsAlone(const std::string& name, const kernels::Ops& ops,
                       const std::vector<int>& worlds, const Script& script, Sizes sizes = {}) {
  std::vector<Seen> alone;
  for (const int ranks : worlds) {
    sizes.ranks = ranks;
    const std::vector<Seen> together = Together(name, ops, sizes, script);
    for (size_t r = 0; r < together.size(); ++r) {
      if (r == alone.size()) alone.push_back(Alone(name, ops, sizes, static_cast<int>(r), script));
      EXPECT_EQ(FirstDifference(together[r], alone[r]), alone[r].size())
          << name << ", rank " << r << " of " << ranks;
    }
  }
}

const kernels::Ops& Exact() { return kernels::CpuOps(kernels::Numerics::kExact); }
const kernels::Ops& Fast() { return kernels::CpuOps(kernels::Numerics::kFast); }
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

// The same in fewer steps, for a model that takes longer.
void ShortPrompt(Rank& rank) {
  const std::vector<int32_t> text = SomeText(rank.config(), 200, 6);
  const bool reads = rank.number() == 0;
  const SequenceId id = rank.Open();
  for (const int64_t rows : {77, 120, 1}) {
    if (reads) rank.Read(id, text, rows);
    rank.Step();
  }
  if (!reads) return;
  rank.SeeState(id);
  rank.Draft(id, text.back());
}

// Every rank has two texts of its own; in some steps none of them, in some one, or both.
void Ragged(Rank& rank) {
  const auto number = static_cast<uint32_t>(rank.number());
  const std::vector<int32_t> one = SomeText(rank.config(), 120, 10 + number);
  const std::vector<int32_t> other = SomeText(rank.config(), 120, 50 + number);
  const SequenceId a = rank.Open(), b = rank.Open();
  for (int step = 0; step < 8; ++step) {
    const int turn = (step + rank.number()) % 4;
    if (turn != 3) rank.Read(a, one, 1 + 7 * turn, model::LogitRows::kLast);
    if (turn == 1) rank.Read(b, other, 9 + step, model::LogitRows::kAll);
    if (turn == 2 && rank.pool().length(b) > 0) rank.Read(b, other, 1, model::LogitRows::kNone);
    rank.Step();
  }
  rank.SeeState(a);
  rank.SeeState(b);
}

// Texts with marks of images; sequences that end, and others in their places.
void ImagesAndEnds(Rank& rank) {
  const std::vector<int32_t> text = SomeText(rank.config(), 200, 20);
  for (const int64_t rows : {70, 33, 70}) {
    const bool reads = rank.number() == 0;
    const SequenceId id = rank.Open();
    if (reads) rank.ReadImage(id, text, rows);
    rank.Step();
    if (reads) rank.Read(id, text, 20);
    rank.Step();
    if (reads) rank.SeeState(id);
    rank.pool().Close(id);
  }
}

// More sequences than others keep copies of, in turns.
void ManySequences(Rank& rank) {
  const std::vector<int32_t> text = SomeText(rank.config(), 100, 30);
  std::vector<SequenceId> ids;
  for (int i = 0; i < 10; ++i) ids.push_back(rank.Open());
  for (int step = 0; step < 15; ++step) {
    for (int i = 0; i < 4; ++i)
      if (rank.number() == 0) rank.Read(ids[static_cast<size_t>(step * 3 + i * 2) % 10], text, 9);
    rank.Step();
  }
  for (const SequenceId id : ids)
    if (rank.number() == 0) rank.SeeState(id);
}

// The encoder alone runs the first rows of a prompt; ranks see the cut in the middle of a chunk,
// and others beside have few rows of their own, which are cut, too.
void Replay(Rank& rank) {
  using model::LogitRows;
  const std::vector<int32_t> text = SomeText(rank.config(), 220, 40);
  const SequenceId id = rank.Open(), other = rank.Open();
  const bool reads = rank.number() == 0;
  for (const auto& [rows, logits] : {std::pair<int64_t, LogitRows>{60, LogitRows::kNone},
                                     {95, LogitRows::kLast},
                                     {1, LogitRows::kAll},
                                     {40, LogitRows::kAll},
                                     {1, LogitRows::kAll}}) {
    if (reads) rank.Read(id, text, rows, logits, 130);
    if (rank.number() == 1) rank.Read(other, text, 3, LogitRows::kNone, 4);
    rank.Step();
    if (reads) rank.SeeState(id);
  }
  rank.SeeState(other);
  if (reads) rank.Draft(id, text.back());
}

// Blocks that one sequence filled, in chunks that were shared and rows that were not, serve others:
// behind them at once, behind a checkpoint, and with rows that are run again to fill the windows.
// And a sequence is taken back.
void Prefixes(Rank& rank) {
  const std::vector<int32_t> text = SomeText(rank.config(), 330, 60);
  const bool reads = rank.number() == 0;
  const SequenceId a = rank.Open(), b = rank.Open(), c = rank.Open(), d = rank.Open();
  for (const int64_t rows : {100, 1, 1, 90, 1}) {
    if (reads && rank.pool().length(a) == 192) rank.pool().SaveCheckpoint(a, 1);
    if (reads) rank.Read(a, text, rows);
    rank.Step();
  }
  const std::vector<int32_t> first = {rank.pool().BlocksOf(a).begin(),
                                      rank.pool().BlocksOf(a).end()};
  const auto before = std::span(text).first(128);
  if (reads) {
    rank.Attach(b, 0, std::span(first).first(2));
    const kvpool::Beginning fresh{
        .length = 128, .encoder_floor = 128, .decoder_floor = 128, .write_from = 128};
    ASSERT_TRUE(rank.model().Begin(b, fresh, before).ok());
    rank.Attach(c, 0, std::span(first).first(3));
    ASSERT_TRUE(rank.pool().RestoreCheckpoint(c, 1, {.length = 192, .write_from = 192}).ok());
    rank.Attach(d, 0, std::span(first).first(2));
    const kvpool::Beginning again{
        .length = 96, .encoder_floor = 96, .decoder_floor = 96, .write_from = 128};
    ASSERT_TRUE(rank.model().Begin(d, again, before.first(96)).ok());
  }
  for (const int64_t rows : {20, 1, 30}) {
    for (const SequenceId id : {b, c, d})
      if (reads) rank.Read(id, text, rows);
    rank.Step();
  }
  if (!reads) return rank.Step();
  for (const SequenceId id : {a, b, c, d}) rank.SeeState(id);
  ASSERT_TRUE(rank.pool().Truncate(d, rank.pool().length(d) - 5).ok());
  rank.Read(d, text, 25);
  rank.Step();
  rank.SeeState(d);
}

const std::vector<int> kWorlds = {1, 2, 3, 4, 8};

TEST(ContextParallel, ALongPromptOnEveryNumberOfRanks) {
  ExpectSameAsAlone("tiny-a", Exact(), kWorlds, LongPrompt);
  ExpectSameAsAlone("tiny-b", Exact(), kWorlds, LongPrompt);
}

TEST(ContextParallel, NanoOnEveryNumberOfRanks) {
  ExpectSameAsAlone("nano", Fast(), kWorlds, ShortPrompt);
}

TEST(ContextParallel, ReferenceBodiesToo) {
  ExpectSameAsAlone("tiny-b", kernels::ReferenceOps(), {3}, ShortPrompt);
}

TEST(ContextParallel, BesideExpertsOverTheSameRanks) {
  ExpectSameAsAlone("tiny-a", Exact(), {2, 3, 8}, LongPrompt, {.experts = true});
  ExpectSameAsAlone("tiny-b", Exact(), {2, 4}, Ragged, {.experts = true});
}

TEST(ContextParallel, RaggedBatches) {
  for (const int64_t least : {1, 5}) {
    ExpectSameAsAlone("tiny-a", Exact(), {2, 3, 8}, Ragged, {.least_rows = least});
    ExpectSameAsAlone("tiny-b", Exact(), {4}, Ragged, {.least_rows = least});
  }
}

TEST(ContextParallel, ImagesAndSequencesThatEnd) {
  ExpectSameAsAlone("tiny-a", Exact(), {2, 3}, ImagesAndEnds);
}

TEST(ContextParallel, MoreSequencesThanCopies) {
  ExpectSameAsAlone("tiny-b", Exact(), {2, 4}, ManySequences);
}

TEST(ContextParallel, RowsThatTheEncoderAloneRuns) {
  ExpectSameAsAlone("tiny-a", Exact(), {2, 3, 8}, Replay);
  ExpectSameAsAlone("tiny-b", Exact(), {2, 3, 8}, Replay, {.least_rows = 4});
}

TEST(ContextParallel, PromptsBehindWhatOthersComputed) {
  for (const int64_t least : {1, 4}) {
    ExpectSameAsAlone("tiny-a", Exact(), {2, 3, 8}, Prefixes, {.least_rows = least});
    ExpectSameAsAlone("tiny-b", Exact(), {2, 3}, Prefixes, {.least_rows = least});
  }
}

// What ranks compute of one chunk, counted.
TEST(ContextParallel, WorkOfEightRanksIsEqualWithin3Percent) {
  const Script script = [](Rank& rank) {
    const std::vector<int32_t> text = SomeText(rank.config(), 2048, 70);
    const SequenceId id = rank.Open();
    for (int i = 0; i < 2; ++i) {
      if (rank.number() == 0) rank.Read(id, text, 1024, model::LogitRows::kLast);
      rank.Step();
    }
  };
  std::vector<double> work(8);
  const checkpoint::Checkpoint& checkpoint = Shipped("tiny-b");
  comm::RunRanks(8, [&](comm::Communicator& comm) {
    Rank rank(checkpoint, Fast(), {.ranks = 8, .max_rows = 1024}, &comm);
    script(rank);
    const model::ContextCounts counts = rank.context()->counts();
    EXPECT_EQ(counts.shared_rows, 2048);
    work[static_cast<size_t>(comm.rank())] = static_cast<double>(counts.work);
  });
  const double mean = std::accumulate(work.begin(), work.end(), 0.0) / 8;
  for (const double of_rank : work) EXPECT_NEAR(of_rank / mean, 1.0, 0.03);
}

// Negative control: another rank's copy of a window that was harmed between two chunks.
TEST(ContextParallel, AHarmedCopyIsFound) {
  const Script script = [](Rank& rank) {
    const std::vector<int32_t> text = SomeText(rank.config(), 60, 80);
    const SequenceId id = rank.Open();
    for (int i = 0; i < 2; ++i) {
      if (rank.number() == 0) rank.Read(id, text, 30);
      rank.Step();
      if (rank.number() == 0) continue;
      const kvpool::Geometry& g = rank.pool().geometry();
      uint8_t* ring = rank.pool().Ring(rank.pool().foreign(0), 0);
      std::fill_n(ring + 29 % g.RingRows() * g.WindowRowBytes(), 8, uint8_t{0x31});
    }
  };
  const Sizes sizes{.ranks = 6};
  const std::vector<Seen> together = Together("tiny-b", Exact(), sizes, script);
  const Seen alone = Alone("tiny-b", Exact(), sizes, 0, script);
  EXPECT_EQ(FirstDifference(together[0], alone), 1U);
}

TEST(ContextParallel, WhatCannotBeIsRefused) {
  comm::RunRanks(2, [](comm::Communicator& comm) {
    const auto made = model::ContextParallel::Make(&comm, {.first = 1, .size = 2});
    EXPECT_FALSE(made.ok());
    auto good = model::ContextParallel::Make(&comm, {.first = 0, .size = 2});
    model::ModelOptions options = OptionsFor(Exact(), 1, 1, 64);
    options.context_parallel = good->get();
    options.context_ranks = 2;
    const auto model = model::Model::Load(Shipped("tiny-b"), options);
    EXPECT_EQ(model.status().message(),
              "the rows of a prompt over several ranks need blocks from outside");
  });
}

// A rank that fails in the middle: the step of the other ends with an error that says why.
TEST(ContextParallel, ALostRankEndsTheStep) {
  const checkpoint::Checkpoint& checkpoint = Shipped("tiny-b");
  comm::RunRanks(2, [&](comm::Communicator& comm) {
    Rank rank(checkpoint, Exact(), {.ranks = 2}, &comm);
    if (comm.rank() == 1) return comm.Fail(base::ResourceExhausted("no memory"));
    const std::vector<int32_t> text = SomeText(rank.config(), 40, 90);
    const SequenceId id = rank.Open();
    rank.Attach(id, 40);
    const model::Chunk chunk{.sequence = id, .tokens = text};
    model::StepOutput output;
    const Status status = rank.model().Step({&chunk, 1}, &output);
    EXPECT_NE(status.message().find("rank 1 failed: resource exhausted: no memory"),
              std::string::npos)
        << status.ToString();
    EXPECT_FALSE(rank.model().Idle().ok());
  });
}

}  // namespace
}  // namespace thalweg::tests
