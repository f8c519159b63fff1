// The cached state of a sequence as bytes, for comparison part by part; and bitwise comparison of
// logits.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvpool/pool.h"

namespace thalweg::tests {

struct SnapshotPart {
  std::string name;
  std::vector<uint8_t> bytes;
};
using Snapshot = std::vector<SnapshotPart>;

// Everything that a later step, or a rollback of at most `rollback_left` tokens and a step behind
// it, can read: compressed rows, ring rows slot by slot, half groups, Engram history.
Snapshot TakeSnapshot(kvpool::Pool* pool, kvpool::SequenceId id, int64_t rollback_left);

// The window rows of the layers from `first_layer` on are left out.
Snapshot WithoutWindows(const Snapshot& snapshot, int64_t first_layer);

// Every byte that the pool holds for a sequence, used or not, and its numbers.
Snapshot TakeRaw(kvpool::Pool* pool, kvpool::SequenceId id);

// Names the first part that differs; empty when all are equal.
std::string Difference(const Snapshot& a, const Snapshot& b);

// Logits [rows, vocab], bit for bit; a failure names the first row that differs.
::testing::AssertionResult SameBits(std::span<const float> expected, std::span<const float> actual,
                                    int64_t vocab);
// The last `count` rows of [rows, vocab].
std::span<const float> LastRows(std::span<const float> logits, int64_t count, int64_t vocab);

}  // namespace thalweg::tests
