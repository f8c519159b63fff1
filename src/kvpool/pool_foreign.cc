// What ranks that share the rows of a prompt hand one another of their pools.
#include <algorithm>

#include "base/check.h"
#include "kvpool/pool.h"

namespace thalweg::kvpool {
namespace {

using Parts = std::vector<std::span<std::byte>>;

// Parts of the pool's memory, one behind the other; the answer is what is left of `to`.
std::span<std::byte> ReadParts(const tensor::Memory& memory, const tensor::Stream& stream,
                               const Parts& parts, std::span<std::byte> to) {
  for (const std::span<std::byte> part : parts) {
    TW_CHECK_LE(part.size(), to.size());
    memory.download(stream, to.data(), part.data(), static_cast<int64_t>(part.size()));
    to = to.subspan(part.size());
  }
  return to;
}

std::span<const std::byte> WriteParts(const tensor::Memory& memory, const tensor::Stream& stream,
                                      const Parts& parts, std::span<const std::byte> from) {
  for (const std::span<std::byte> part : parts) {
    TW_CHECK_LE(part.size(), from.size());
    memory.upload(stream, part.data(), from.data(), static_cast<int64_t>(part.size()));
    from = from.subspan(part.size());
  }
  return from;
}

}  // namespace

void Pool::Restart(SequenceId id, const Beginning& beginning) {
  Slot& s = slot(id);
  s.blocks.clear();
  s.length = 0;
  Begin(id, beginning);
}

// Rings and half groups; the history, which is the host's, comes behind them.
std::vector<std::span<std::byte>> Pool::StateOf(SequenceId id) {
  Slot& s = slot(id);
  std::vector<std::span<std::byte>> parts;
  for (tensor::Buffer* buffer : {&s.rings, &s.pending})
    parts.emplace_back(buffer->data(), static_cast<size_t>(buffer->bytes()));
  return parts;
}

void Pool::ReadState(SequenceId id, std::span<std::byte> to) {
  const auto rest = ReadParts(*memory_, stream_, StateOf(id), to);
  const auto history = std::as_bytes(std::span(slot(id).history));
  TW_CHECK_EQ(rest.size(), history.size());
  std::copy(history.begin(), history.end(), rest.begin());
}

void Pool::WriteState(SequenceId id, std::span<const std::byte> from) {
  const auto rest = WriteParts(*memory_, stream_, StateOf(id), from);
  const auto history = std::as_writable_bytes(std::span(slot(id).history));
  TW_CHECK_EQ(rest.size(), history.size());
  std::copy(rest.begin(), rest.end(), history.begin());
}

// Rows of a block in every owner's memory: main rows, then index keys.
std::vector<std::span<std::byte>> Pool::PartsOf(int32_t block) {
  std::vector<std::span<std::byte>> parts;
  for (size_t i = 0; i < geometry_.owners.size(); ++i) {
    const OwnerGroup& g = geometry_.owners[i];
    const int64_t rows = geometry_.block_tokens / g.ratio;
    const auto add = [&](tensor::Buffer& buffer, int64_t bytes) {
      parts.emplace_back(buffer.data() + bytes * block, static_cast<size_t>(bytes));
    };
    add(main_[i], rows * geometry_.MainRowBytes(g));
    add(index_[i], rows * geometry_.IndexRowBytes(g));
  }
  return parts;
}

void Pool::ReadBlock(int32_t block, std::span<std::byte> to) {
  TW_CHECK(ReadParts(*memory_, stream_, PartsOf(block), to).empty());
}

void Pool::WriteBlock(int32_t block, std::span<const std::byte> from) {
  TW_CHECK(WriteParts(*memory_, stream_, PartsOf(block), from).empty());
}

}  // namespace thalweg::kvpool
