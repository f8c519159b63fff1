// The physical cache: blocks of compressed rows shared by all sequences, one slot of bounded state
// (window rings, half groups, Engram history) per sequence, and copies of such state, the
// checkpoints from which a sequence may begin. Knows rows and bytes, nothing of requests or
// scheduling (docs/contracts/cache.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "kvpool/geometry.h"
#include "tensor/buffer.h"
#include "tensor/memory.h"
#include "tensor/paged_rows.h"

namespace thalweg::kvpool {

// A sequence of one pool; an index, never reused while open.
enum class SequenceId : int32_t {};

// fp32 compressor values and gate scores of the first token of a ratio-2 group.
struct PendingGroup {
  float* kv = nullptr;     // [main_width]
  float* score = nullptr;  // [main_width]
};

struct PoolSize {
  int64_t blocks = 0;
  int64_t sequences = 0;  // open at a time
  int64_t checkpoints = 0;
  // true: someone else says which block belongs to whom (Attach), and one block may serve several
  // sequences. false: Reserve takes free blocks.
  bool blocks_from_outside = false;
  // One more sequence with a block of its own, always open, for rows that fill up a step of a
  // device: nobody reads what they leave.
  bool padding = false;
  // Sequences and blocks of other ranks, whose rows this one helps to compute; not with padding.
  int64_t foreign_sequences = 0;
  int64_t foreign_blocks = 0;  // numbers behind the own ones
  // Where rows live, and the queue in whose order they are copied.
  const tensor::Memory* memory = &tensor::HostMemory();
  tensor::Stream stream = {};
};

// Where a sequence begins that takes its first tokens from elsewhere.
struct Beginning {
  int64_t length = 0;         // tokens whose compressed rows are there
  int64_t encoder_floor = 0;  // encoder layers have no window rows below
  int64_t decoder_floor = 0;  // likewise decoder layers and draft stages
  int64_t write_from = 0;     // compressed rows below are shared: never written
};

class Pool {
 public:
  Pool(Geometry geometry, const PoolSize& size);

  const Geometry& geometry() const { return geometry_; }
  int64_t blocks() const { return blocks_; }
  int64_t free_blocks() const { return static_cast<int64_t>(free_blocks_.size()); }
  int64_t bytes() const;
  // Of a pool with padding. It has no tokens, and room for a block of them.
  SequenceId padding() const { return static_cast<SequenceId>(sequences_); }

  // Another rank's sequence, always open: begun anew, without blocks, by Restart. Its blocks are
  // numbered from blocks() on.
  SequenceId foreign(int64_t i) const { return static_cast<SequenceId>(sequences_ + i); }
  void Restart(SequenceId id, const Beginning& beginning);
  // Changes whenever the sequence does: begun, longer or shorter.
  int64_t version(SequenceId id) const { return slot(id).version; }
  std::span<const int32_t> BlocksOf(SequenceId id) const { return slot(id).blocks; }
  // The bounded state of a sequence, and all rows of a block, as bytes in host memory, wherever the
  // rows live: Geometry::SlotBytes of them, and BlockBytes.
  void ReadState(SequenceId id, std::span<std::byte> to);
  void WriteState(SequenceId id, std::span<const std::byte> from);
  void ReadBlock(int32_t block, std::span<std::byte> to);
  void WriteBlock(int32_t block, std::span<const std::byte> from);

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
  // Appends blocks to the table of a sequence; of a pool with blocks from outside alone.
  // kInvalidArgument: a block that the pool does not have.
  Status Attach(SequenceId id, std::span<const int32_t> blocks);
  // Sets the beginning of a sequence that has no tokens yet. Its window rows below the floors, and
  // its half groups, are taken to be absent.
  void Begin(SequenceId id, const Beginning& beginning);
  // Declares tokens [0, length) complete; length() may only grow.
  void Commit(SequenceId id, int64_t length);
  // Takes back the newest tokens. Of the longest length that was reached, rollback_tokens may go
  // (kOutOfRange beyond that), or everything: length 0 starts over. The decoder's floor comes down
  // with the length: tokens that follow have window rows again.
  Status Truncate(SequenceId id, int64_t length);

  // Decoder layers have no window rows below this position (bounded replay; spec/model.md 2.7).
  int64_t decoder_floor(SequenceId id) const { return slot(id).decoder_floor; }
  void set_decoder_floor(SequenceId id, int64_t position) { slot(id).decoder_floor = position; }

  // Draft stages have no window rows below this position: the decoder's floor, or above it where
  // rows ran without making them.
  int64_t draft_floor(SequenceId id) const {
    return std::max(slot(id).draft_floor, slot(id).decoder_floor);
  }
  void set_draft_floor(SequenceId id, int64_t position) { slot(id).draft_floor = position; }

  // Encoder layers have no window rows below this position: a sequence that began in the middle
  // (spec/serving.md 5.2).
  int64_t encoder_floor(SequenceId id) const { return slot(id).encoder_floor; }
  // Compressed rows of tokens below are shared with other sequences: never written.
  int64_t write_from(SequenceId id) const { return slot(id).write_from; }

  // Copies the bounded state of a sequence into a checkpoint; the rings of decoder layers and draft
  // stages only when the decoder has rows. Blocks are not copied.
  void SaveCheckpoint(SequenceId id, int32_t checkpoint);
  // The compressed id of a position of the history that a checkpoint holds.
  int32_t& CheckpointHistory(int32_t checkpoint, int64_t position);
  // Loads one into a sequence without tokens; its own encoder floor stays in force. Refused
  // (kFailedPrecondition): another length, or decoder rows that it lacks or that begin elsewhere.
  Status RestoreCheckpoint(SequenceId id, int32_t checkpoint, const Beginning& beginning);
  // Bytes that checkpoints hold now.
  int64_t checkpoint_bytes() const;

  // Where rows and rings live.
  const tensor::Memory& memory() const { return *memory_; }
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
    int64_t version = 0;
    int64_t length = 0;
    int64_t high_water = 0;  // rings hold positions [high_water - RingRows, high_water)
    int64_t encoder_floor = 0;
    int64_t decoder_floor = 0;
    int64_t draft_floor = 0;
    int64_t write_from = 0;
    std::vector<int32_t> blocks;
    tensor::Buffer rings;
    tensor::Buffer pending;
    std::vector<int32_t> history;
  };
  struct Checkpoint {
    bool filled = false;
    int64_t length = 0, high_water = 0, encoder_floor = 0, decoder_floor = 0, draft_floor = 0;
    int64_t layers = 0;    // whose rings are there
    tensor::Buffer state;  // rings, then half groups
    std::vector<int32_t> history;
  };
  Status CheckRestore(const Checkpoint& checkpoint, int32_t number, const Beginning& wanted) const;
  Slot& slot(SequenceId id);
  const Slot& slot(SequenceId id) const;
  tensor::PagedRows Rows(SequenceId id, int owner, bool index);
  std::vector<std::span<std::byte>> StateOf(SequenceId id);
  std::vector<std::span<std::byte>> PartsOf(int32_t block);
  // The newest `count` blocks of a sequence go to the device's copy of its table.
  void SendBlocks(SequenceId id, int64_t count);

  Geometry geometry_;
  const tensor::Memory* memory_;
  tensor::Stream stream_;
  int64_t blocks_ = 0;
  int64_t sequences_ = 0;
  int64_t foreign_blocks_ = 0;
  bool blocks_from_outside_ = false;
  std::vector<tensor::Buffer> main_;     // [owner], [blocks, block_tokens / ratio, row bytes]
  std::vector<tensor::Buffer> index_;    // [owner]
  tensor::Buffer tables_;                // of a device: block tables [sequences, blocks]
  std::vector<int64_t> pending_offset_;  // [owner], floats into Slot::pending
  std::vector<int32_t> free_blocks_;
  std::vector<Slot> slots_;
  std::vector<Checkpoint> checkpoints_;
};

}  // namespace thalweg::kvpool
