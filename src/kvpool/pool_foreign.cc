// What ranks that share the rows of a prompt hand one another of their pools.
#include <algorithm>

#include "base/check.h"
#include "kvpool/pool.h"

namespace thalweg::kvpool {
namespace {

using Parts = std::vector<std::span<std::byte>>;

void ReadParts(const Parts& parts, std::span<std::byte> to) {
  for (const std::span<std::byte> part : parts) {
    std::copy(part.begin(), part.end(), to.begin());
    to = to.subspan(part.size());
  }
  TW_CHECK(to.empty());
}

void WriteParts(const Parts& parts, std::span<const std::byte> from) {
  for (const std::span<std::byte> part : parts) {
    std::copy_n(from.begin(), part.size(), part.begin());
    from = from.subspan(part.size());
  }
  TW_CHECK(from.empty());
}

}  // namespace
void Pool::Restart(SequenceId id, const Beginning& beginning) {
  Slot& s = slot(id);
  s.blocks.clear();
  s.length = 0;
  Begin(id, beginning);
}

// Rings, half groups, history: one behind the other.
std::vector<std::span<std::byte>> Pool::StateOf(SequenceId id) {
  Slot& s = slot(id);
  std::vector<std::span<std::byte>> parts;
  for (tensor::Buffer* buffer : {&s.rings, &s.pending})
    parts.emplace_back(buffer->data(), static_cast<size_t>(buffer->bytes()));
  parts.push_back(std::as_writable_bytes(std::span(s.history)));
  return parts;
}

void Pool::ReadState(SequenceId id, std::span<std::byte> to) { ReadParts(StateOf(id), to); }

void Pool::WriteState(SequenceId id, std::span<const std::byte> from) {
  WriteParts(StateOf(id), from);
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

void Pool::ReadBlock(int32_t block, std::span<std::byte> to) { ReadParts(PartsOf(block), to); }

void Pool::WriteBlock(int32_t block, std::span<const std::byte> from) {
  WriteParts(PartsOf(block), from);
}

}  // namespace thalweg::kvpool
