#include "kvpool/pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/math.h"

namespace thalweg::kvpool {

Pool::Pool(Geometry geometry, const PoolSize& size)
    : geometry_(std::move(geometry)),
      memory_(size.memory),
      stream_(size.stream),
      blocks_(size.blocks),
      sequences_(size.sequences),
      foreign_blocks_(size.foreign_blocks),
      blocks_from_outside_(size.blocks_from_outside),
      slots_(static_cast<size_t>(size.sequences + size.foreign_sequences + (size.padding ? 1 : 0))),
      checkpoints_(static_cast<size_t>(size.checkpoints)) {
  TW_CHECK(!size.padding || size.foreign_sequences == 0);
  const int64_t places = blocks_ + foreign_blocks_ + (size.padding ? 1 : 0);
  int64_t pending_floats = 0;
  for (const OwnerGroup& g : geometry_.owners) {
    TW_CHECK_EQ(geometry_.block_tokens % g.ratio, 0);
    const int64_t rows = places * (geometry_.block_tokens / g.ratio);
    main_.emplace_back(rows * geometry_.MainRowBytes(g), *memory_);
    index_.emplace_back(rows * geometry_.IndexRowBytes(g), *memory_);
    pending_offset_.push_back(pending_floats);
    if (g.ratio == 2) pending_floats += geometry_.PendingRows() * 2 * g.main_width;
  }
  for (int64_t b = blocks_from_outside_ ? 0 : blocks_; b-- > 0;)
    free_blocks_.push_back(static_cast<int32_t>(b));
  for (Slot& s : slots_) {
    s.rings = tensor::Buffer(geometry_.window_layers * geometry_.RingBytes(), *memory_);
    s.pending = tensor::Buffer(geometry_.PendingBytes(), *memory_);
    s.history.assign(static_cast<size_t>(geometry_.HistoryRows()), 0);
    s.blocks.reserve(static_cast<size_t>(blocks_));  // so that a step never allocates
  }
  for (int64_t i = 0; i < size.foreign_sequences; ++i)
    slots_[static_cast<size_t>(foreign(i))].open = true;
  if (!memory_->host) {
    tables_ = tensor::Buffer(
        static_cast<int64_t>(slots_.size()) * blocks_ * static_cast<int64_t>(sizeof(int32_t)),
        *memory_);
  }
  if (!size.padding) return;
  slots_.back().open = true;
  slots_.back().blocks.push_back(static_cast<int32_t>(blocks_));
  SendBlocks(padding(), 1);
}

void Pool::SendBlocks(SequenceId id, int64_t count) {
  if (memory_->host || count == 0) return;
  const std::vector<int32_t>& blocks = slot(id).blocks;
  TW_CHECK_LE(static_cast<int64_t>(blocks.size()), blocks_);
  const int64_t first = static_cast<int64_t>(blocks.size()) - count;
  memory_->upload(stream_, tables_.as<int32_t>() + static_cast<int64_t>(id) * blocks_ + first,
                  blocks.data() + first, count * static_cast<int64_t>(sizeof(int32_t)));
}

int64_t Pool::bytes() const {
  int64_t total = static_cast<int64_t>(slots_.size()) * geometry_.SlotBytes();
  for (const tensor::Buffer& b : main_) total += b.bytes();
  for (const tensor::Buffer& b : index_) total += b.bytes();
  return total + tables_.bytes() + checkpoint_bytes();
}

int64_t Pool::checkpoint_bytes() const {
  int64_t total = 0;
  for (const Checkpoint& c : checkpoints_)
    total += c.state.bytes() + static_cast<int64_t>(c.history.size() * sizeof(int32_t));
  return total;
}

Pool::Slot& Pool::slot(SequenceId id) {
  Slot& s = slots_[static_cast<size_t>(id)];
  TW_DCHECK(s.open);
  return s;
}

const Pool::Slot& Pool::slot(SequenceId id) const { return slots_[static_cast<size_t>(id)]; }

Result<SequenceId> Pool::Open() {
  const auto free =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.open; });
  if (free == slots_.end())
    return base::ResourceExhausted(fmt::format("all {} sequence slots are in use", sequences_));
  free->open = true;
  ++free->version;
  free->length = free->high_water = free->encoder_floor = free->decoder_floor = 0;
  free->draft_floor = free->write_from = 0;
  return static_cast<SequenceId>(free - slots_.begin());
}

void Pool::Close(SequenceId id) {
  Slot& s = slot(id);
  if (!blocks_from_outside_)
    free_blocks_.insert(free_blocks_.end(), s.blocks.rbegin(), s.blocks.rend());
  s.blocks.clear();
  s.open = false;
}

int64_t Pool::MissingBlocks(SequenceId id, int64_t tokens) const {
  const int64_t wanted = base::CeilDiv(tokens, geometry_.block_tokens);
  return std::max<int64_t>(0, wanted - static_cast<int64_t>(slot(id).blocks.size()));
}

Status Pool::Reserve(SequenceId id, int64_t tokens) {
  Slot& s = slot(id);
  const int64_t wanted = MissingBlocks(id, tokens);
  if (wanted > free_blocks()) {
    return base::ResourceExhausted(
        fmt::format("the cache has {} free blocks of {} tokens, {} more are needed", free_blocks(),
                    geometry_.block_tokens, wanted));
  }
  for (int64_t i = 0; i < wanted; ++i) {
    s.blocks.push_back(free_blocks_.back());
    free_blocks_.pop_back();
  }
  SendBlocks(id, wanted);
  return {};
}

Status Pool::Attach(SequenceId id, std::span<const int32_t> blocks) {
  TW_CHECK(blocks_from_outside_);
  Slot& s = slot(id);
  for (const int32_t block : blocks) {
    if (block < 0 || block >= blocks_ + foreign_blocks_)
      return base::InvalidArgument(fmt::format("block {} of a pool of {}", block, blocks_));
  }
  s.blocks.insert(s.blocks.end(), blocks.begin(), blocks.end());
  SendBlocks(id, static_cast<int64_t>(blocks.size()));
  return {};
}

void Pool::Begin(SequenceId id, const Beginning& beginning) {
  Slot& s = slot(id);
  TW_CHECK_EQ(s.length, 0);
  ++s.version;
  s.length = s.high_water = beginning.length;
  s.encoder_floor = beginning.encoder_floor;
  s.decoder_floor = s.draft_floor = beginning.decoder_floor;
  s.write_from = beginning.write_from;
}

void Pool::SaveCheckpoint(SequenceId id, int32_t checkpoint) {
  Slot& s = slot(id);
  Checkpoint& c = checkpoints_.at(static_cast<size_t>(checkpoint));
  c.layers = s.decoder_floor < s.length ? geometry_.window_layers : geometry_.encoder_layers;
  c.filled = true;
  c.length = s.length;
  c.high_water = s.high_water;
  c.encoder_floor = s.encoder_floor;
  c.decoder_floor = s.decoder_floor;
  c.draft_floor = s.draft_floor;
  c.history = s.history;
  const int64_t rings = c.layers * geometry_.RingBytes();
  const int64_t pending = geometry_.PendingBytes();
  if (c.state.bytes() != rings + pending) c.state = tensor::Buffer(rings + pending, *memory_);
  memory_->copy(stream_, c.state.data(), s.rings.data(), rings);
  memory_->copy(stream_, c.state.data() + rings, s.pending.data(), pending);
}

int32_t& Pool::CheckpointHistory(int32_t checkpoint, int64_t position) {
  return checkpoints_.at(static_cast<size_t>(checkpoint))
      .history[static_cast<size_t>(position % geometry_.HistoryRows())];
}

Status Pool::CheckRestore(const Checkpoint& c, int32_t checkpoint, const Beginning& b) const {
  if (!c.filled || c.length != b.length) {
    return base::FailedPrecondition(
        fmt::format("checkpoint {} holds {} tokens, not {}", checkpoint, c.length, b.length));
  }
  const bool decoder = b.decoder_floor < b.length;
  if (decoder && (c.layers != geometry_.window_layers || c.decoder_floor != b.decoder_floor)) {
    return base::FailedPrecondition(
        fmt::format("checkpoint {} has decoder rows from {}, rows from {} are wanted", checkpoint,
                    c.decoder_floor, b.decoder_floor));
  }
  return {};
}

Status Pool::RestoreCheckpoint(SequenceId id, int32_t checkpoint, const Beginning& beginning) {
  if (checkpoint < 0 || checkpoint >= static_cast<int64_t>(checkpoints_.size()))
    return base::InvalidArgument(fmt::format("checkpoint {} does not exist", checkpoint));
  Slot& s = slot(id);
  TW_CHECK_EQ(s.length, 0);
  Checkpoint& c = checkpoints_[static_cast<size_t>(checkpoint)];
  TW_TRY(CheckRestore(c, checkpoint, beginning));
  ++s.version;
  s.length = c.length;
  s.high_water = c.high_water;
  s.encoder_floor = c.encoder_floor;
  s.decoder_floor = beginning.decoder_floor;
  s.draft_floor = c.draft_floor;
  s.write_from = beginning.write_from;
  s.history = c.history;
  const int64_t rings = c.layers * geometry_.RingBytes();
  memory_->copy(stream_, s.rings.data(), c.state.data(), rings);
  memory_->copy(stream_, s.pending.data(), c.state.data() + rings, geometry_.PendingBytes());
  return {};
}

void Pool::Commit(SequenceId id, int64_t length) {
  Slot& s = slot(id);
  TW_CHECK_GE(length, s.length);
  ++s.version;
  s.length = length;
  s.high_water = std::max(s.high_water, length);
}

Status Pool::Truncate(SequenceId id, int64_t length) {
  Slot& s = slot(id);
  TW_CHECK_LE(length, s.length);
  if (length < 0 || (length != 0 && length < s.high_water - geometry_.rollback_tokens)) {
    return base::OutOfRange(fmt::format("cannot go back from {} to {} tokens: the rings keep {}",
                                        s.high_water, length, geometry_.rollback_tokens));
  }
  ++s.version;
  if (length == 0) s.high_water = s.write_from = 0;
  s.encoder_floor = std::min(s.encoder_floor, length);
  s.decoder_floor = std::min(s.decoder_floor, length);
  s.draft_floor = std::min(s.draft_floor, length);
  s.length = length;
  return {};
}

tensor::PagedRows Pool::Rows(SequenceId id, int owner, bool index) {
  const OwnerGroup& g = geometry_.owners[static_cast<size_t>(owner)];
  tensor::PagedRows rows;
  rows.pool = (index ? index_ : main_)[static_cast<size_t>(owner)].as<uint8_t>();
  rows.blocks = slot(id).blocks.data();
  rows.blocks_count = static_cast<int64_t>(slot(id).blocks.size());
  if (!memory_->host)
    rows.device_blocks = tables_.as<int32_t>() + static_cast<int64_t>(id) * blocks_;
  rows.rows_per_block = geometry_.block_tokens / g.ratio;
  rows.row_bytes = index ? geometry_.IndexRowBytes(g) : geometry_.MainRowBytes(g);
  rows.block_bytes = rows.rows_per_block * rows.row_bytes;
  rows.width = index ? g.index_width : g.main_width;
  rows.format = index ? geometry_.index_format : geometry_.main_format;
  return rows;
}

tensor::PagedRows Pool::MainRows(SequenceId id, int owner) { return Rows(id, owner, false); }
tensor::PagedRows Pool::IndexRows(SequenceId id, int owner) { return Rows(id, owner, true); }

uint8_t* Pool::Ring(SequenceId id, int64_t layer) {
  return slot(id).rings.as<uint8_t>() + layer * geometry_.RingRows() * geometry_.WindowRowBytes();
}

PendingGroup Pool::Pending(SequenceId id, int owner, int64_t group) {
  const auto i = static_cast<size_t>(owner);
  const int64_t width = geometry_.owners[i].main_width;
  float* base = slot(id).pending.as<float>() + pending_offset_[i] +
                group % geometry_.PendingRows() * 2 * width;
  return {base, base + width};
}

int32_t& Pool::History(SequenceId id, int64_t position) {
  return slot(id).history[static_cast<size_t>(position % geometry_.HistoryRows())];
}

}  // namespace thalweg::kvpool
