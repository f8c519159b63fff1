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

#include "comm/test_ranks.h"
#include "kernels/backends.h"
#include "model/context_parallel.h"
#include "tests/device/pretend.h"
#include "tests/invariance/checkpoints.h"
#include "tests/ranks/context_rank.h"

namespace thalweg::tests {
namespace {

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

// A processor that pretends to be a device: rows that travel from device to device, and rows that
// go through host memory.
TEST(ContextParallel, RowsOfDevices) {
  for (const bool devices : {true, false}) {
    SCOPED_TRACE(devices);
    const auto check = [&](const std::string& name, const std::vector<int>& worlds,
                           const Script& script, Sizes sizes) {
      sizes.devices = devices;
      ExpectSameAsAlone(name, PretendedDevice(), worlds, script, sizes);
    };
    check("tiny-a", {2, 3, 8}, LongPrompt, {});
    check("tiny-a", {2, 3}, ImagesAndEnds, {});
    check("tiny-a", {3}, Prefixes, {.least_rows = 4});
    check("tiny-b", {2, 4}, Ragged, {.experts = true});
    check("tiny-b", {2, 3, 8}, Replay, {.experts = true, .least_rows = 4});
    check("tiny-b", {2}, ManySequences, {});
    check("nano", {2}, ShortPrompt, {.experts = true});
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
