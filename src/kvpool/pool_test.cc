// The pool gives back what it lent, refuses what it can't hold, and knows how far a sequence can be
// taken back.
#include "kvpool/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace thalweg::kvpool {
namespace {

Geometry Small() {
  Geometry g;
  g.owners = {{.ratio = 2, .main_width = 64, .index_width = 32},
              {.ratio = 1, .main_width = 64, .index_width = 32}};
  g.window = 16;
  g.rollback_tokens = 12;
  g.window_layers = 3;
  g.window_width = 64;
  g.history_tokens = 4;
  return g;
}

TEST(Geometry, ReleaseCosts890BytesPerToken) {
  Geometry g;
  g.owners.assign(3, {.ratio = 2, .main_width = 512, .index_width = 128});
  g.owners.push_back({.ratio = 1, .main_width = 512, .index_width = 128});
  EXPECT_EQ(g.BlockBytes(), 890 * g.block_tokens);
}

TEST(Pool, BlocksAreLentAndReturned) {
  Pool pool(Small(), {.blocks = 4, .sequences = 2});
  const SequenceId a = *pool.Open();
  const SequenceId b = *pool.Open();
  EXPECT_EQ(pool.Open().status().code(), base::Code::kResourceExhausted);
  EXPECT_TRUE(pool.Reserve(a, 65).ok());
  EXPECT_EQ(pool.free_blocks(), 2);
  EXPECT_TRUE(pool.Reserve(a, 128).ok());
  EXPECT_EQ(pool.free_blocks(), 2);
  EXPECT_EQ(pool.Reserve(b, 200).code(), base::Code::kResourceExhausted);
  EXPECT_EQ(pool.free_blocks(), 2);
  pool.Close(a);
  EXPECT_EQ(pool.free_blocks(), 4);
  EXPECT_TRUE(pool.Reserve(b, 200).ok());
}

TEST(Pool, RowsOfTwoSequencesNeverOverlap) {
  Pool pool(Small(), {.blocks = 4, .sequences = 2});
  const SequenceId a = *pool.Open();
  const SequenceId b = *pool.Open();
  ASSERT_TRUE(pool.Reserve(a, 64).ok());
  ASSERT_TRUE(pool.Reserve(b, 128).ok());
  ASSERT_TRUE(pool.Reserve(a, 128).ok());
  const auto rows_a = pool.MainRows(a, 0);
  const auto rows_b = pool.MainRows(b, 0);
  std::vector<const uint8_t*> seen;
  for (int64_t g = 0; g < 64; ++g) {
    seen.push_back(rows_a.Row(g));
    seen.push_back(rows_b.Row(g));
  }
  std::sort(seen.begin(), seen.end());
  for (size_t i = 1; i < seen.size(); ++i) EXPECT_GE(seen[i] - seen[i - 1], rows_a.row_bytes);
}

TEST(Pool, MissingBlocksAreThoseThatReserveTakes) {
  Pool pool(Small(), {.blocks = 4, .sequences = 1});
  const SequenceId a = *pool.Open();
  EXPECT_EQ(pool.MissingBlocks(a, 0), 0);
  EXPECT_EQ(pool.MissingBlocks(a, 65), 2);
  ASSERT_TRUE(pool.Reserve(a, 65).ok());
  EXPECT_EQ(pool.MissingBlocks(a, 128), 0);
  EXPECT_EQ(pool.MissingBlocks(a, 1), 0);
  EXPECT_EQ(pool.MissingBlocks(a, 129), 1);
}

TEST(Pool, TheDecoderFloorComesDownWithTheLength) {
  Pool pool(Small(), {.blocks = 4, .sequences = 1});
  const SequenceId a = *pool.Open();
  pool.Commit(a, 20);
  pool.set_decoder_floor(a, 20);
  ASSERT_TRUE(pool.Truncate(a, 15).ok());
  EXPECT_EQ(pool.decoder_floor(a), 15);
  ASSERT_TRUE(pool.Truncate(a, 0).ok());
  EXPECT_EQ(pool.decoder_floor(a), 0);
}

TEST(Pool, RollbackReachesAsFarAsTheRings) {
  Pool pool(Small(), {.blocks = 8, .sequences = 1});
  const SequenceId a = *pool.Open();
  pool.Commit(a, 20);
  EXPECT_TRUE(pool.Truncate(a, 8).ok());
  EXPECT_FALSE(pool.Truncate(a, 7).ok());
  EXPECT_TRUE(pool.Truncate(a, 0).ok());
  pool.Commit(a, 100);
  EXPECT_TRUE(pool.Truncate(a, 88).ok());
  EXPECT_EQ(pool.Truncate(a, 87).code(), base::Code::kOutOfRange);
  pool.Commit(a, 90);
  EXPECT_EQ(pool.Truncate(a, 87).code(), base::Code::kOutOfRange);  // position 100 had been written
  EXPECT_EQ(pool.length(a), 90);
}

PoolSize FromOutside() {
  return {.blocks = 4, .sequences = 2, .checkpoints = 2, .blocks_from_outside = true};
}

TEST(Pool, BlocksFromOutsideServeSeveralSequences) {
  Pool pool(Small(), FromOutside());
  const SequenceId a = *pool.Open();
  const SequenceId b = *pool.Open();
  EXPECT_EQ(pool.Reserve(a, 1).code(), base::Code::kResourceExhausted);
  const std::vector<int32_t> first = {3, 1};
  ASSERT_TRUE(pool.Attach(a, first).ok());
  ASSERT_TRUE(pool.Attach(b, {first.data(), 1}).ok());
  EXPECT_EQ(pool.MainRows(a, 0).Row(5), pool.MainRows(b, 0).Row(5));
  const std::vector<int32_t> bad = {4};
  EXPECT_EQ(pool.Attach(b, bad).code(), base::Code::kInvalidArgument);
  EXPECT_EQ(pool.MissingBlocks(a, 128), 0);
  EXPECT_EQ(pool.MissingBlocks(a, 129), 1);
  pool.Close(a);
  EXPECT_EQ(pool.free_blocks(), 0);
}

TEST(Pool, CheckpointsHoldWhatTheyWereSavedWith) {
  Pool pool(Small(), FromOutside());
  const SequenceId a = *pool.Open();
  pool.Commit(a, 64);
  pool.set_decoder_floor(a, 5);
  *pool.Ring(a, 2) = 77;
  *pool.Pending(a, 0, 3).kv = 1.5f;
  pool.History(a, 63) = 9;
  pool.SaveCheckpoint(a, 1);
  *pool.Ring(a, 2) = 78;

  const SequenceId b = *pool.Open();
  const Beginning wanted{.length = 64, .decoder_floor = 5, .write_from = 64};
  EXPECT_EQ(pool.RestoreCheckpoint(b, 0, wanted).code(), base::Code::kFailedPrecondition);
  EXPECT_EQ(pool.RestoreCheckpoint(b, 2, wanted).code(), base::Code::kInvalidArgument);
  EXPECT_EQ(pool.RestoreCheckpoint(b, 1, {.length = 128}).code(), base::Code::kFailedPrecondition);
  EXPECT_EQ(pool.RestoreCheckpoint(b, 1, {.length = 64, .decoder_floor = 6}).code(),
            base::Code::kFailedPrecondition);
  ASSERT_TRUE(pool.RestoreCheckpoint(b, 1, wanted).ok());
  EXPECT_EQ(pool.length(b), 64);
  EXPECT_EQ(pool.decoder_floor(b), 5);
  EXPECT_EQ(pool.write_from(b), 64);
  EXPECT_EQ(*pool.Ring(b, 2), 77);
  EXPECT_EQ(*pool.Pending(b, 0, 3).kv, 1.5f);
  EXPECT_EQ(pool.History(b, 63), 9);
}

TEST(Pool, ACheckpointWithoutDecoderRowsIsSmallerAndServesNoDecoder) {
  Geometry g = Small();
  g.encoder_layers = 1;
  Pool pool(g, FromOutside());
  const SequenceId a = *pool.Open();
  pool.Commit(a, 64);
  pool.set_decoder_floor(a, 64);
  pool.SaveCheckpoint(a, 0);
  EXPECT_EQ(pool.checkpoint_bytes(), g.CheckpointBytes(1));
  const SequenceId b = *pool.Open();
  EXPECT_EQ(pool.RestoreCheckpoint(b, 0, {.length = 64, .decoder_floor = 63}).code(),
            base::Code::kFailedPrecondition);
  EXPECT_TRUE(pool.RestoreCheckpoint(b, 0, {.length = 64, .decoder_floor = 64}).ok());
}

// What one rank reads of its pool, another writes into its own: state of a sequence, rows of
// blocks.
TEST(Pool, ForeignSequencesTakeWhatOthersHave) {
  const Geometry g = Small();
  PoolSize size = FromOutside();
  size.foreign_sequences = 1;
  size.foreign_blocks = 8;
  Pool here(g, size), there(g, size);
  const SequenceId a = *here.Open();
  const int32_t block = 1, away = static_cast<int32_t>(there.blocks()) + 1;
  ASSERT_TRUE(here.Attach(a, {&block, 1}).ok());
  here.Commit(a, 33);
  *here.Ring(a, 1) = 5;
  *here.Pending(a, 0, 16).score = 2.5f;
  here.History(a, 32) = 7;
  *here.MainRows(a, 1).Row(9) = 8;

  const SequenceId copy = there.foreign(0);
  there.Restart(copy, {.length = 33, .encoder_floor = 2, .decoder_floor = 3, .write_from = 4});
  ASSERT_TRUE(there.Attach(copy, {&away, 1}).ok());
  std::vector<std::byte> state(static_cast<size_t>(g.SlotBytes()));
  here.ReadState(a, state);
  there.WriteState(copy, state);
  std::vector<std::byte> rows(static_cast<size_t>(g.BlockBytes()));
  here.ReadBlock(block, rows);
  there.WriteBlock(away, rows);
  EXPECT_EQ(there.length(copy), 33);
  EXPECT_EQ(there.encoder_floor(copy), 2);
  EXPECT_EQ(*there.Ring(copy, 1), 5);
  EXPECT_EQ(*there.Pending(copy, 0, 16).score, 2.5f);
  EXPECT_EQ(there.History(copy, 32), 7);
  EXPECT_EQ(*there.MainRows(copy, 1).Row(9), 8);
  there.Restart(copy, {});
  EXPECT_TRUE(there.BlocksOf(copy).empty());
  EXPECT_EQ(there.length(copy), 0);
}

TEST(Pool, VersionsTellOfEveryChange) {
  Pool pool(Small(), FromOutside());
  const SequenceId a = *pool.Open();
  const int64_t opened = pool.version(a);
  pool.Commit(a, 5);
  const int64_t longer = pool.version(a);
  ASSERT_TRUE(pool.Truncate(a, 4).ok());
  EXPECT_LT(opened, longer);
  EXPECT_LT(longer, pool.version(a));
  const int64_t before = pool.version(a);
  pool.Close(a);
  ASSERT_EQ(*pool.Open(), a);
  EXPECT_LT(before, pool.version(a));
}

}  // namespace
}  // namespace thalweg::kvpool
