// BlockCache against an obvious model with maps, over random operations; and what eviction
// promises: nothing in use goes, no child is stranded, older and cheaper goes first.
#include "cache/block_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/rng.h"

namespace thalweg::cache {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : key_(base::PhiloxKeyOf(seed)) {}
  size_t Below(size_t n) { return base::Philox4x32({count_++, 0, 0, 0}, key_)[0] % n; }

 private:
  base::PhiloxKey key_;
  uint32_t count_ = 0;
};

BlockHash Name(uint64_t n) { return {n * 0x9e3779b97f4a7c15u, n}; }

// A sequence of the test: it walks down one path of a tree of names.
struct User {
  std::vector<int32_t> blocks;
  std::vector<uint64_t> path;  // names
  size_t published = 0;
  int32_t tail = BlockCache::kNone;
};

constexpr int64_t kBlocks = 24, kCheckpoints = 5;

class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed), cache_(kBlocks, kCheckpoints) {}

  void Step() {
    switch (random_.Below(6)) {
      case 0: Open(); break;
      case 1: Close(); break;
      case 2: Save(); break;
      case 3:
        if (random_.Below(50) == 0) cache_.DropCached();
        break;
      default: Grow(); break;
    }
    Check();
  }
  int64_t hits() const { return hits_; }
  int64_t checkpoints_found() const { return checkpoints_found_; }
  uint64_t evicted() const { return cache_.evicted(); }

 private:
  // Names below a name: three of them, so that paths meet often.
  uint64_t Child(const User& u) {
    const uint64_t parent = u.path.empty() ? 1 : u.path.back();
    return parent * 4 + 1 + random_.Below(u.path.size() < 2 ? 3 : 1);
  }

  void Open() {
    if (users_.size() == 4) return;
    User u;
    for (size_t depth = random_.Below(7); u.path.size() < depth;) {
      const uint64_t name = Child(u);
      const int32_t entry = cache_.Find(Name(name));
      if (entry == BlockCache::kNone) break;
      u.path.push_back(name);
      u.blocks.push_back(cache_.Acquire(entry));
      EXPECT_EQ(content_[u.blocks.back()], name);
      u.tail = entry;
      ++u.published;
      ++hits_;
    }
    users_.push_back(u);
  }

  void Grow() {
    if (users_.empty()) return;
    User& u = users_[random_.Below(users_.size())];
    if (random_.Below(2) == 0 && u.blocks.size() < 7 && cache_.available() > 0) {
      u.path.push_back(Child(u));
      u.blocks.push_back(cache_.Take());
      content_[u.blocks.back()] = u.path.back();
    } else if (u.published < u.blocks.size()) {
      u.tail = cache_.Publish(u.blocks[u.published], Name(u.path[u.published]), u.tail);
      ++u.published;
    }
  }

  void Close() {
    if (users_.empty()) return;
    const size_t at = random_.Below(users_.size());
    for (const int32_t block : users_[at].blocks) cache_.Release(block);
    users_.erase(users_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void Save() {
    if (users_.empty()) return;
    const User& u = users_[random_.Below(users_.size())];
    if (u.published == 0) return;
    const int64_t kind = static_cast<int64_t>(random_.Below(3)) - 1;
    const int32_t found = cache_.FindCheckpoint(u.tail, kind);
    if (found != BlockCache::kNone) {
      EXPECT_EQ(saved_.at(found), std::make_pair(u.path[u.published - 1], kind));
      ++checkpoints_found_;
      return;
    }
    const int32_t slot = cache_.TakeCheckpoint();
    ASSERT_NE(slot, BlockCache::kNone);
    saved_[slot] = {u.path[u.published - 1], kind};
    cache_.BindCheckpoint(slot, u.tail, kind, 0);
  }

  void Check() {
    std::vector<int32_t> users(kBlocks), none(kCheckpoints);
    std::map<int32_t, uint64_t> held;
    for (const User& u : users_) {
      for (size_t i = 0; i < u.blocks.size(); ++i) {
        const int32_t b = u.blocks[i];
        ++users[static_cast<size_t>(b)];
        EXPECT_EQ(content_[b], u.path[i]) << "a block in use changed hands";
      }
      // What a sequence published is found as long as it lives.
      for (size_t i = 0; i < u.published; ++i) {
        const int32_t entry = cache_.Find(Name(u.path[i]));
        ASSERT_NE(entry, BlockCache::kNone);
      }
    }
    const auto used = kBlocks - std::count(users.begin(), users.end(), 0);
    EXPECT_EQ(cache_.available(), kBlocks - used);
    const Status audit = cache_.Audit(users, none, none);
    ASSERT_TRUE(audit.ok()) << audit.ToString();
  }

  Random random_;
  BlockCache cache_;
  std::vector<User> users_;
  std::map<int32_t, uint64_t> content_;  // name of what was computed into each block last
  std::map<int32_t, std::pair<uint64_t, int64_t>> saved_;
  int64_t hits_ = 0, checkpoints_found_ = 0;
};

TEST(BlockCache, AgreesWithAnObviousModel) {
  int64_t hits = 0, found = 0;
  uint64_t evicted = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Model model(seed);
    for (int i = 0; i < 20000 && !HasFatalFailure(); ++i) model.Step();
    hits += model.hits();
    found += model.checkpoints_found();
    evicted += model.evicted();
  }
  EXPECT_GT(hits, 10000);
  EXPECT_GT(found, 1000);
  EXPECT_GT(evicted, 10000u);
}

// A chain of published blocks, released: names base + 1 ...
void CacheChain(BlockCache* cache, uint64_t base, int64_t blocks, bool checkpoint = false) {
  std::vector<int32_t> held;
  int32_t tail = BlockCache::kNone;
  for (int64_t i = 0; i < blocks; ++i) {
    held.push_back(cache->Take());
    tail = cache->Publish(held.back(), Name(base + static_cast<uint64_t>(i) + 1), tail);
  }
  if (checkpoint) cache->BindCheckpoint(cache->TakeCheckpoint(), tail, 0, 0);
  for (const int32_t block : held) cache->Release(block);
}

int64_t Cached(const BlockCache& cache, uint64_t base, int64_t blocks) {
  int64_t found = 0;
  while (found < blocks && cache.Find(Name(base + static_cast<uint64_t>(found) + 1)) >= 0) ++found;
  return found;
}

TEST(BlockCache, LeavesGoBeforeTheirParentsAndOldChainsBeforeNew) {
  BlockCache cache(8, 1);
  CacheChain(&cache, 100, 4);
  CacheChain(&cache, 200, 4);
  for (int64_t taken = 1; taken <= 4; ++taken) {
    cache.Take();
    EXPECT_EQ(Cached(cache, 100, 4), 4 - taken);
    EXPECT_EQ(Cached(cache, 200, 4), 4);
  }
  EXPECT_TRUE(cache.EvictedLately(Name(101)));
  EXPECT_FALSE(cache.EvictedLately(Name(201)));
}

TEST(BlockCache, AUsedChainIsYoungAgain) {
  BlockCache cache(8, 1);
  CacheChain(&cache, 100, 4);
  CacheChain(&cache, 200, 4);
  const int32_t block = cache.Acquire(cache.Find(Name(101)));
  cache.Release(block);
  for (int64_t i = 0; i < 7; ++i) cache.Take();
  EXPECT_EQ(Cached(cache, 100, 1), 1) << "the root that was used last";
}

TEST(BlockCache, ACheckpointMakesItsBlockDearerAndGoesWithIt) {
  BlockCache cache(8, 1);
  CacheChain(&cache, 100, 4, true);
  CacheChain(&cache, 200, 4);
  cache.Take();
  EXPECT_EQ(Cached(cache, 100, 4), 4) << "older, and dearer";
  EXPECT_EQ(cache.checkpoints_used(), 1);
  cache.DropCached();
  EXPECT_EQ(cache.checkpoints_used(), 0);
  EXPECT_EQ(cache.free(), 7);
}

TEST(BlockCache, ACopyInUseTakesThePlaceOfOneThatIsNot) {
  BlockCache cache(4, 1);
  const int32_t first = cache.Take();
  const int32_t entry = cache.Publish(first, Name(1), BlockCache::kNone);
  const int32_t second = cache.Take();
  EXPECT_EQ(cache.Publish(second, Name(1), BlockCache::kNone), entry);
  cache.Release(first);
  EXPECT_EQ(cache.available(), 3);
  EXPECT_EQ(cache.Acquire(entry), second);
}

TEST(BlockCache, PinnedCheckpointsStay) {
  BlockCache cache(4, 1);
  const int32_t block = cache.Take();
  const int32_t entry = cache.Publish(block, Name(1), BlockCache::kNone);
  cache.BindCheckpoint(cache.TakeCheckpoint(), entry, 7, 9);
  const int32_t slot = cache.FindCheckpoint(entry, 7);
  EXPECT_EQ(cache.checkpoint_floor(slot), 9);
  cache.PinCheckpoint(slot);
  EXPECT_EQ(cache.TakeCheckpoint(), BlockCache::kNone);
  cache.UnpinCheckpoint(slot);
  EXPECT_EQ(cache.TakeCheckpoint(), slot);
  EXPECT_EQ(cache.FindCheckpoint(entry, 7), BlockCache::kNone);
}

}  // namespace
}  // namespace thalweg::cache
