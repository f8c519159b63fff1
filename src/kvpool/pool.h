// The physical cache: blocks of compressed rows shared by all sequences, and one slot of bounded
// state (window rings, half groups, Engram history) per sequence. Knows rows and bytes, nothing of
// requests or scheduling.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "kvpool/geometry.h"
#include "tensor/buffer.h"
#include "tensor/paged_rows.h"

namespace thalweg::kvpool {

// A sequence of one pool; an index, never reused while open.
enum class SequenceId : int32_t {};

// fp32 compressor values and gate scores of the first token of a ratio-2 group.
struct PendingGroup {
  float* kv = nullptr;     // [main_width]
  float* score = nullptr;  // [main_width]
};

class Pool {
 public:
  // Room for `blocks` blocks and `sequences` open sequences.
  Pool(Geometry geometry, int64_t blocks, int64_t sequences);

  const Geometry& geometry() const { return geometry_; }
  int64_t free_blocks() const { return static_cast<int64_t>(free_blocks_.size()); }
  int64_t bytes() const;

  // A new empty sequence; kResourceExhausted when all slots are taken.
  Result<SequenceId> Open();
  // Gives everything back.
  void Close(SequenceId id);

  // Tokens whose state is complete.
  int64_t length(SequenceId id) const { return slot(id).length; }
  // Blocks that Reserve would take.
  int64_t MissingBlocks(SequenceId id, int64_t tokens) const;
  // Makes blocks available for tokens [0, tokens); kResourceExhausted leaves the sequence as it
  // was.
  Status Reserve(SequenceId id, int64_t tokens);
  // Declares tokens [0, length) complete; length() may only grow.
  void Commit(SequenceId id, int64_t length);
  // Takes back the newest tokens. Of the longest length that was reached, rollback_tokens may go
  // (kOutOfRange beyond that), or everything: length 0 starts over. The decoder's floor comes down
  // with the length: tokens that follow have window rows again.
  Status Truncate(SequenceId id, int64_t length);

  // Decoder layers have no window rows below this position (bounded replay; spec/model.md 2.7).
  int64_t decoder_floor(SequenceId id) const { return slot(id).decoder_floor; }
  void set_decoder_floor(SequenceId id, int64_t position) { slot(id).decoder_floor = position; }

  tensor::PagedRows MainRows(SequenceId id, int owner);
  tensor::PagedRows IndexRows(SequenceId id, int owner);
  // Ring of one window layer, [RingRows, WindowRowBytes]; position p lives at p % RingRows.
  uint8_t* Ring(SequenceId id, int64_t layer);
  // Half group g of a ratio-2 owner.
  PendingGroup Pending(SequenceId id, int owner, int64_t group);
  // Compressed id of position p for the Engram hash; negative ids mark dead tokens.
  int32_t& History(SequenceId id, int64_t position);

 private:
  struct Slot {
    bool open = false;
    int64_t length = 0;
    int64_t high_water = 0;  // rings hold positions [high_water - RingRows, high_water)
    int64_t decoder_floor = 0;
    std::vector<int32_t> blocks;
    tensor::Buffer rings;
    tensor::Buffer pending;
    std::vector<int32_t> history;
  };
  Slot& slot(SequenceId id);
  const Slot& slot(SequenceId id) const;
  tensor::PagedRows Rows(SequenceId id, int owner, bool index);

  Geometry geometry_;
  std::vector<tensor::Buffer> main_;     // [owner], [blocks, block_tokens / ratio, row bytes]
  std::vector<tensor::Buffer> index_;    // [owner]
  std::vector<int64_t> pending_offset_;  // [owner], floats into Slot::pending
  std::vector<int32_t> free_blocks_;
  std::vector<Slot> slots_;
};

}  // namespace thalweg::kvpool
