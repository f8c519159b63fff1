// Expert parallelism of one layer and step (spec/decoding.md 7.2): which rows go to which ranks,
// what travels, and where results come back. A row goes once to each rank that has one of its
// experts; each expert's result comes back by itself, as the bf16 that it is, so that the sum is
// made at home in the order of the row's slots: the number of ranks changes no bit. Buffers are
// laid out by (source rank, source row, slot), never by arrival.
//
// Bytes of a token, formula (EpBytes): dispatch d (h + h / 32) for d distinct ranks, FP8 with a
// scale for 32; combine 2 h for each of its experts. What plans add (a byte for each row sent, six
// for each expert) is under one per cent at the released width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "parallel/placement.h"

namespace thalweg::parallel {

// One expert of a row that was sent.
struct DispatchEntry {
  int32_t choice = 0;      // which of the row's topk
  int32_t local_slot = 0;  // of the rank that it goes to
  bool operator==(const DispatchEntry&) const = default;
};

// What one rank sends.
struct DispatchPlan {
  std::vector<int32_t> row_begin;      // [ranks + 1] into rows
  std::vector<int32_t> rows;           // of this step, by rank, ascending
  std::vector<int32_t> entry_begin;    // [rows sent + 1] into entries
  std::vector<DispatchEntry> entries;  // by row sent, ascending choice
  std::vector<int32_t> returned_at;    // [rows * topk]: of the results, in the order of entries

  int64_t RowsTo(int rank) const;
  int64_t EntriesTo(int rank) const;
};

// The rows that a rank has in a step. first_row is the number of row 0 in what Choose of the table
// counts by.
struct RoutedRows {
  int64_t rows = 0;
  int64_t topk = 0;
  std::span<const int32_t> chosen;  // [rows, topk], expert ids
  int source_rank = 0;
  int64_t first_row = 0;
};

DispatchPlan PlanDispatch(const RoutedRows& routed, const ReplicaTable& replicas,
                          const PlacementShape& shape);

// How many rows and entries go from one rank to another: exchanged before the rows themselves where
// counts are exact.
struct DispatchCounts {
  int32_t rows = 0;
  int32_t entries = 0;
  bool operator==(const DispatchCounts&) const = default;
};
std::vector<DispatchCounts> CountsOf(const DispatchPlan& plan);  // [ranks]

// The message to one rank: [rows][row_bytes] payload, [rows] bytes: entries of each, [entries]
// local slots (16 bits), [entries] weights (fp32).
int64_t MessageBytes(DispatchCounts counts, int64_t row_bytes);

// With fixed capacities messages are as long as if `rows` rows went with all their experts, and
// begin with the counts: nothing is exchanged before, and a graph can be recorded. Refused when a
// rank gets more rows than that.
int64_t FixedMessageBytes(int64_t rows, int64_t topk, int64_t row_bytes);
Status CheckCapacity(const DispatchPlan& plan, int64_t rows);

// Writes the message to `rank`. payload [rows of the step][row_bytes]; weights [rows, topk].
void WriteMessage(const DispatchPlan& plan, int rank, std::span<const std::byte> payload,
                  int64_t row_bytes, std::span<const float> weights, int64_t topk,
                  std::span<std::byte> message);
// The same behind its counts.
void WriteFixedMessage(const DispatchPlan& plan, int rank, std::span<const std::byte> payload,
                       int64_t row_bytes, std::span<const float> weights, int64_t topk,
                       std::span<std::byte> message);

// A result that a rank has to compute: of which row received, by which of its slots.
struct ReceivedPair {
  int32_t row = 0;
  int32_t local_slot = 0;
  float weight = 0;
};

// What a rank received, in the order of source ranks.
struct ReceivedRows {
  std::vector<const std::byte*> payload;  // of each row
  std::vector<ReceivedPair> pairs;        // by row, ascending choice: results go back in this order
  std::vector<int32_t> pair_begin;        // [ranks + 1] into pairs
};

// Appends the message of the next source rank; checks it against the counts and the slots.
Status ReadMessage(std::span<const std::byte> message, DispatchCounts counts, int64_t row_bytes,
                   int64_t slots_per_rank, ReceivedRows* received);
// The same for messages of fixed capacity; `counts` is what they begin with.
Status ReadFixedMessage(std::span<const std::byte> message, int64_t row_bytes,
                        int64_t slots_per_rank, ReceivedRows* received);

// Bytes that leave a rank by the formula, and by the plan; what stays on the rank counts for
// nothing.
struct EpBytes {
  int64_t dispatch = 0;
  int64_t combine = 0;  // of the results of this rank's rows, on the ranks that send them
};
EpBytes FormulaBytes(const DispatchPlan& plan, int source_rank, int64_t hidden);
EpBytes PlannedBytes(const DispatchPlan& plan, int source_rank, int64_t hidden, int64_t row_bytes);

}  // namespace thalweg::parallel
