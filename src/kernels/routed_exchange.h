// Rows of a step of few rows on their way to experts of other ranks and back, with nothing that the
// host has to know in between (spec/decoding.md 7.2, fixed capacity): every rank gives all its rows
// and what they chose to every other, each finds among them what it has to compute, and results
// have a place of their own for each row and choice. So lengths and places are the same whatever
// was chosen, and a graph can be recorded.
#pragma once

#include "kernels/ops.h"

namespace thalweg::kernels {

// What a rank offers: [capacity][RowBytes] codes and scales, then, from the next multiple of 16
// bytes on, [capacity, topk] experts (int32; -1: none) and [capacity, topk] weights (fp32).
struct OfferShape {
  int64_t capacity = 0, width = 0, topk = 0;
  RowFormat format = RowFormat::kFp8E8M0;

  int64_t pairs() const { return capacity * topk; }
  int64_t row_bytes() const { return tensor::RowBytes(format, width); }
  int64_t choices_at() const { return (capacity * row_bytes() + 15) / 16 * 16; }
  int64_t bytes() const { return choices_at() + pairs() * 8; }
};

struct OfferRowsParams {
  Stream stream;
  OfferShape shape;
  int64_t rows = 0;                 // of this rank, at most the capacity
  const int32_t* live = nullptr;    // (list) [1]: the first so many of them count
  const BF16* x = nullptr;          // [rows, width], quantised already
  const int32_t* chosen = nullptr;  // [rows, topk]
  const float* weights = nullptr;   // [rows, topk]
  int64_t* counts = nullptr;        // [experts]: rows that count are added; null: nobody counts
  uint8_t* out = nullptr;           // [shape.bytes()]
};

// Pairs of a row and one of its choices, by rank, row and choice: [ranks, capacity, topk]. Those
// that this rank computes get the row's values, the slot and the weight; others slot
// slots_per_rank and weight 0, and their values stay what they were.
struct RouteRowsParams {
  Stream stream;
  OfferShape shape;
  int64_t ranks = 1, self = 0, rows = 0, slots_per_rank = 0;
  const BF16* x = nullptr;              // [rows, width], of this rank
  const uint8_t* own = nullptr;         // what it offers
  const uint8_t* came = nullptr;        // [ranks][shape.bytes()]; its own place is not read
  const int32_t* slot_begin = nullptr;  // [experts + 1] into slots
  const int32_t* slots = nullptr;       // that have an expert, numbered through all ranks
  BF16* out = nullptr;                  // [pairs, width]
  int32_t* chosen = nullptr;            // [pairs]
  float* weights = nullptr;             // [pairs]
  int32_t* holder = nullptr;            // [capacity, topk]: the rank that computes it for this one
};

// What the experts of this rank's rows gave, added up in fp32 in the order of slots, the shared
// expert last.
struct SumRoutedParams {
  Stream stream;
  OfferShape shape;
  int64_t self = 0, rows = 0;
  const int32_t* holder = nullptr;  // [capacity, topk]
  const BF16* own = nullptr;        // [ranks, capacity, topk, width]: results of this rank
  const BF16* came = nullptr;       // by rank that computed them, of this rank's rows
  const BF16* shared = nullptr;     // [rows, width]
  BF16* out = nullptr;              // [rows, width]
};

struct RoutedExchange {
  void (*offer_rows)(const OfferRowsParams& params) = nullptr;
  void (*route_rows)(const RouteRowsParams& params) = nullptr;
  void (*sum_routed)(const SumRoutedParams& params) = nullptr;
  // The device's own handle of a stream's queue, behind which something else may queue work: all
  // that ops have queued is in front of it. Null where there is none.
  void* (*queue_of)(const Stream& stream) = nullptr;
  // Whether all that is on it is done; of a device that has such a handle.
  bool (*idle)(const Stream& stream) = nullptr;
};

// Of a device; null where a backend has none.
const RoutedExchange* RoutedExchangeOf(const Ops& ops);
// The obvious bodies, in host memory: what devices are tested against.
const RoutedExchange& ReferenceRoutedExchange();

}  // namespace thalweg::kernels
