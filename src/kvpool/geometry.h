// What one sequence stores, and in which layout (spec/model.md 4): the physical side of the cache.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/row_format.h"

namespace thalweg::kvpool {

// Compressed rows of one owner layer: main rows and index keys, one each per `ratio` tokens.
struct OwnerGroup {
  int64_t ratio = 1;        // tokens per row: 1 or 2
  int64_t main_width = 0;   // head_dim
  int64_t index_width = 0;  // index_head_dim
};

// Everything about the cache that follows from the model and the rollback budget.
struct Geometry {
  int64_t block_tokens = 64;  // tokens of one block; a multiple of every ratio
  std::vector<OwnerGroup> owners;
  int64_t window = 0;  // rows that attention looks back on
  int64_t rollback_tokens =
      0;  // newest tokens that may be taken back; the rings are window + this long
  int64_t window_layers = 0;   // rings: target layers, then draft stages
  int64_t encoder_layers = 0;  // the first of them: rows of every token, whatever replay trims
  int64_t window_width = 0;    // head_dim
  int64_t history_tokens =
      0;  // compressed ids that the Engram hash looks back on; 0 without Engram
  tensor::RowFormat main_format = tensor::RowFormat::kFp4E4M3;
  tensor::RowFormat index_format = tensor::RowFormat::kFp4E8M0;
  tensor::RowFormat window_format = tensor::RowFormat::kFp8E8M0;

  int64_t RingRows() const { return window + rollback_tokens; }
  int64_t MainRowBytes(const OwnerGroup& g) const {
    return tensor::RowBytes(main_format, g.main_width);
  }
  int64_t IndexRowBytes(const OwnerGroup& g) const {
    return tensor::RowBytes(index_format, g.index_width);
  }
  int64_t WindowRowBytes() const { return tensor::RowBytes(window_format, window_width); }
  // Incomplete groups kept per ratio-2 owner, so that a rollback to an odd length finds its half
  // group.
  int64_t PendingRows() const { return rollback_tokens / 2 + 2; }
  int64_t HistoryRows() const { return history_tokens + rollback_tokens; }

  // Bytes of one block over all owners.
  int64_t BlockBytes() const;
  int64_t RingBytes() const { return RingRows() * WindowRowBytes(); }
  int64_t PendingBytes() const;
  // Bytes of the bounded state of one sequence: rings, pending groups, history.
  int64_t SlotBytes() const;
  // Of a copy of it, with the rings of the first `layers` layers.
  int64_t CheckpointBytes(int64_t layers) const;
};

}  // namespace thalweg::kvpool
