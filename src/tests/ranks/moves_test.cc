// Experts that move between steps: weights come to the ranks that want them in pieces of any size,
// packed or as they are stored; the layer is switched when all are there; no bit of any rank's
// logits changes; and what a rank holds afterwards is packed, what it has given away is not.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/test_ranks.h"
#include "kernels/backends.h"
#include "model/expert_moves.h"
#include "model/expert_store.h"
#include "tests/device/pretend.h"
#include "tests/ranks/reader.h"

namespace thalweg::tests {
namespace {

const kernels::Ops& Cpu() { return kernels::CpuOps(kernels::Numerics::kExact); }

constexpr std::array kMovedLayers = {0, 3, 1};

struct Case {
  int ranks = 2;
  int64_t pieces = 1;  // that an expert comes in
  model::Repack repack = model::Repack::kAlways;
  int without_packing = -1;  // a rank that has the memory for none
  bool device = false;       // a processor that pretends to be one,
  bool through_host = true;  // to which weights come through host memory
};

// Every expert on the next rank, those of the last on the first.
std::vector<int32_t> MovedOn(std::vector<int32_t> slots, int64_t per_rank) {
  std::rotate(slots.begin(), slots.end() - per_rank, slots.end());
  return slots;
}

parallel::Placement FirstPlaces(const checkpoint::Config& config, int ranks) {
  const auto shape = parallel::ShapeFor(config.n_routed_experts, ranks, 1);
  return parallel::InOrder(*shape, config.num_hidden_layers);
}

const kernels::Ops& OpsOf(const Case& c) { return c.device ? PretendedDevice() : Cpu(); }

std::vector<float> Alone(const Case& c, const checkpoint::Checkpoint& checkpoint, int rank) {
  RankReader reader(checkpoint, OpsOf(c), rank, nullptr,
                    c.device ? c.repack : model::Repack::kNever);
  while (!reader.done()) EXPECT_TRUE(reader.Step().ok());
  return reader.logits();
}

// Whether just the experts that the tables name are packed, and the other blocks are free.
void ExpectPackedWhereHeld(const model::ExpertParallel& experts, model::Model& model) {
  int64_t held = 0;
  const auto layers = static_cast<int>(experts.placement().layers.size());
  for (int layer = 0; layer < layers; ++layer) {
    const auto all = model.experts(layer);
    for (size_t e = 0; e < all.size(); ++e) {
      const bool holds = experts.Holds(layer, static_cast<int64_t>(e));
      EXPECT_EQ(all[e].w1.packed != nullptr, holds) << "layer " << layer << ", expert " << e;
      EXPECT_EQ(all[e].w2.packed != nullptr, holds);
      held += holds ? 1 : 0;
    }
  }
  EXPECT_EQ(model.expert_store().free_blocks(),
            (layers + 1) * experts.placement().shape.slots_per_rank - held);
}

// A step, then a piece of the move, until some layers have moved.
void RunRank(const Case& c, const checkpoint::Checkpoint& checkpoint, comm::Communicator& comm) {
  comm::Communicator* devices = c.through_host ? nullptr : &comm;
  auto experts = model::ExpertParallel::Make(&comm, FirstPlaces(checkpoint.config(), c.ranks),
                                             devices, &PretendedExchange());
  ASSERT_TRUE(experts.ok());
  const bool packs = comm.rank() != c.without_packing;
  RankReader reader(checkpoint, OpsOf(c), comm.rank(), experts->get(),
                    packs ? c.repack : model::Repack::kNever);
  auto moves = model::ExpertMoves::Make(&comm, experts->get(), &reader.model(), devices);
  ASSERT_TRUE(moves.ok()) << moves.status().ToString();
  EXPECT_EQ((*moves)->by_message(), c.repack == model::Repack::kAlways && c.without_packing < 0);
  const auto& places = (*experts)->placement();
  size_t moved = 0, pieces = 0;
  for (int step = 0; step < 12 || moved < kMovedLayers.size(); ++step) {
    ASSERT_TRUE(reader.Step().ok());
    if (moved == kMovedLayers.size()) continue;
    if (!(*moves)->busy()) {
      const int layer = kMovedLayers[moved];
      ASSERT_TRUE((*moves)
                      ->Begin(layer, MovedOn(places.layers[static_cast<size_t>(layer)],
                                             places.shape.slots_per_rank))
                      .ok());
      EXPECT_GT((*moves)->transfers(), 0);
    }
    const Result<bool> done = (*moves)->Advance((*moves)->expert_bytes() / c.pieces + 1);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    ++pieces;
    if (*done) ++moved;
  }
  EXPECT_GE(pieces, kMovedLayers.size() * static_cast<size_t>(c.pieces));
  EXPECT_TRUE(reader.done());
  const std::vector<float> alone = Alone(c, checkpoint, comm.rank());
  ASSERT_EQ(reader.logits().size(), alone.size());
  if (!alone.empty()) {
    EXPECT_EQ(std::memcmp(reader.logits().data(), alone.data(), alone.size() * sizeof(float)), 0);
  }
  if (c.repack == model::Repack::kAlways && packs) ExpectPackedWhereHeld(**experts, reader.model());
}

void Check(const std::string& name, const Case& c) {
  SCOPED_TRACE(testing::Message() << name << " on " << c.ranks << " ranks");
  const checkpoint::Checkpoint& checkpoint = Shipped(name);
  comm::RunRanks(c.ranks, [&](comm::Communicator& comm) { RunRank(c, checkpoint, comm); });
}

TEST(ExpertMoves, PackedWeightsComeInPieces) {
  for (const int ranks : {2, 3, 4}) Check("tiny-a", {.ranks = ranks, .pieces = 2});
  Check("tiny-b", {.ranks = 3});
  Check("nano", {.ranks = 2, .pieces = 3});
}

TEST(ExpertMoves, StoredWeightsStayWhereTheyAre) {
  Check("tiny-a", {.ranks = 3, .pieces = 2, .repack = model::Repack::kNever});
}

TEST(ExpertMoves, ARankWithoutMemoryForPackedOnes) {
  Check("tiny-a", {.ranks = 3, .without_packing = 1});
}

// On one that is pretended, from device to device and through host memory.
TEST(ExpertMoves, WeightsOfDevices) {
  for (const bool through_host : {false, true}) {
    for (const int ranks : {2, 3, 4})
      Check("tiny-a", {.ranks = ranks, .pieces = 2, .device = true, .through_host = through_host});
    Check("nano", {.ranks = 2, .pieces = 3, .device = true, .through_host = through_host});
  }
}

// A device that uses experts as they are stored has no blocks to move.
TEST(ExpertMoves, StoredWeightsOfADeviceAreRefused) {
  kernels::Ops ops = PretendedDevice();
  ops.name = "unpacked";
  ops.packed_bytes = [](const kernels::Matrix&) { return int64_t{0}; };
  const checkpoint::Checkpoint& checkpoint = Shipped("tiny-a");
  comm::RunRanks(2, [&](comm::Communicator& comm) {
    auto experts = model::ExpertParallel::Make(&comm, FirstPlaces(checkpoint.config(), 2));
    RankReader reader(checkpoint, ops, comm.rank(), experts->get());
    const auto moves = model::ExpertMoves::Make(&comm, experts->get(), &reader.model());
    EXPECT_EQ(moves.status().message(),
              "experts of the unpacked backend move as it lays them out, and here it uses them as "
              "they are stored, or the ranks differ: leave --rebalance-window out");
  });
}

TEST(ExpertMoves, WhatCannotBeIsRefused) {
  const checkpoint::Checkpoint& checkpoint = Shipped("tiny-a");
  comm::RunRanks(2, [&](comm::Communicator& comm) {
    auto experts = model::ExpertParallel::Make(&comm, FirstPlaces(checkpoint.config(), 2));
    RankReader reader(checkpoint, Cpu(), comm.rank(), experts->get(), model::Repack::kAlways);
    auto moves = model::ExpertMoves::Make(&comm, experts->get(), &reader.model());
    ASSERT_TRUE(moves.ok());
    EXPECT_FALSE((*moves)->Advance(1).ok());
    std::vector<int32_t> slots = (*experts)->placement().layers[0];
    EXPECT_FALSE((*moves)->Begin(1000, slots).ok());
    EXPECT_FALSE((*moves)->Begin(0, std::vector<int32_t>(slots.size(), 0)).ok());
    EXPECT_FALSE((*moves)->busy());
    ASSERT_TRUE(
        (*moves)->Begin(0, MovedOn(slots, (*experts)->placement().shape.slots_per_rank)).ok());
    EXPECT_FALSE((*moves)->Begin(1, slots).ok());
    EXPECT_FALSE((*moves)->Advance(0).ok());
  });
}

// Negative control: the bits do tell which weights an expert has.
TEST(ExpertMoves, ABlockOfAnotherExpertIsFound) {
  const checkpoint::Checkpoint& checkpoint = Shipped("tiny-a");
  comm::RunRanks(1, [&](comm::Communicator& comm) {
    auto experts = model::ExpertParallel::Make(&comm, FirstPlaces(checkpoint.config(), 1));
    RankReader reader(checkpoint, Cpu(), 0, experts->get(), model::Repack::kAlways);
    const auto all = reader.model().experts(0);
    std::byte* first = model::ExpertStore::BlockOf(all[0]);
    for (auto& expert : all) reader.model().expert_store().Attach(first, &expert);
    while (!reader.done()) ASSERT_TRUE(reader.Step().ok());
    const std::vector<float> alone = Alone({}, checkpoint, 0);
    ASSERT_EQ(reader.logits().size(), alone.size());
    EXPECT_NE(std::memcmp(reader.logits().data(), alone.data(), alone.size() * sizeof(float)), 0);
  });
}

}  // namespace
}  // namespace thalweg::tests
