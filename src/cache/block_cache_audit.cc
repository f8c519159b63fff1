// What must hold of a BlockCache between any two calls.
#include <fmt/format.h>

#include "cache/block_cache.h"

namespace thalweg::cache {
namespace {

Status Broken(std::string what) { return base::Internal("block cache: " + std::move(what)); }

}  // namespace

Status BlockCache::Audit(std::span<const int32_t> users, std::span<const int32_t> readers,
                         std::span<const int32_t> writers) const {
  TW_TRY(AuditBlocks(users));
  for (int32_t e = 0; e < blocks(); ++e) {
    if (EntryAt(e).block != kNone) TW_TRY(AuditEntry(e));
  }
  TW_TRY(AuditCheckpoints(readers, writers));
  return slots_.Audit();
}

Status BlockCache::AuditBlocks(std::span<const int32_t> users) const {
  int64_t idle = 0, cached = 0;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const Block& block = blocks_[b];
    if (block.users != users[b]) {
      return Broken(fmt::format("block {} counts {} users and has {}", b, block.users, users[b]));
    }
    if (block.users > 0) continue;
    (block.entry == kNone ? idle : cached) += 1;
    if (block.entry != kNone && EntryAt(block.entry).block != static_cast<int32_t>(b)) {
      return Broken(fmt::format("copy {} of an entry has no user", b));
    }
  }
  std::vector<bool> seen(blocks_.size());
  for (const int32_t b : free_) {
    const auto at = static_cast<size_t>(b);
    if (seen[at] || blocks_[at].users > 0 || blocks_[at].entry != kNone) {
      return Broken(fmt::format("block {} is free twice, or free and in use", b));
    }
    seen[at] = true;
  }
  if (idle != free() || cached != cached_) return Broken("blocks were lost");
  return {};
}

Status BlockCache::AuditEntry(int32_t entry) const {
  const Entry& e = EntryAt(entry);
  const auto block = [this](int32_t b) -> const Block& { return blocks_[static_cast<size_t>(b)]; };
  if (index_.Find(e.hash) != entry) return Broken(fmt::format("entry {} is not found", entry));
  if (block(e.block).entry != entry) return Broken(fmt::format("entry {} lost its block", entry));
  for (int32_t c = e.copies; c != kNone; c = block(c).next_copy) {
    if (block(c).entry != entry || block(c).users != 1 || block(e.block).users == 0) {
      return Broken(fmt::format("copy {} of entry {} is out of place", c, entry));
    }
  }
  if (e.parent == kNone) return {};
  const Entry& parent = EntryAt(e.parent);
  if (parent.block == kNone || parent.children < 1 || parent.depth + 1 != e.depth) {
    return Broken(fmt::format("entry {} is stranded", entry));
  }
  if (block(e.block).users > 0 && block(parent.block).users == 0) {
    return Broken(fmt::format("entry {} is in use and its parent is not", entry));
  }
  return {};
}

Status BlockCache::AuditCheckpoints(std::span<const int32_t> readers,
                                    std::span<const int32_t> writers) const {
  for (int32_t s = 0; s < static_cast<int32_t>(readers.size()); ++s) {
    const auto at = static_cast<size_t>(s);
    if (slots_.pins(s) != readers[at]) {
      return Broken(fmt::format("checkpoint {} is pinned {} times by {} plans", s, slots_.pins(s),
                                readers[at]));
    }
    if (slots_.writing(s) != (writers[at] == 1)) {
      return Broken(fmt::format("checkpoint {} is written by {} plans", s, writers[at]));
    }
  }
  return {};
}

}  // namespace thalweg::cache
