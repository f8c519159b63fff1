// Compiled grammars by what they were compiled from, shared by requests.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/status.h"
#include "grammar/matcher.h"

namespace thalweg::engine {

using GrammarRef = std::shared_ptr<grammar::Grammar>;

// Thread-safe. What was used least recently leaves first when all together take more than the
// budget; a grammar that sequences use lives on with them.
class GrammarCache {
 public:
  using Compile = std::function<Result<GrammarRef>()>;
  struct Stats {
    uint64_t hits = 0, compiled = 0, failed = 0, evicted = 0;
    int64_t grammars = 0, bytes = 0;
  };

  explicit GrammarCache(int64_t budget_bytes) : budget_bytes_(budget_bytes) {}

  // `compile` runs on the calling thread, once for all that ask for a key at a time; these wait and
  // get the same answer. Errors are not remembered.
  Result<GrammarRef> Get(const std::string& key, const Compile& compile);
  Stats stats() const;

 private:
  struct Entry {
    std::string key;
    std::shared_future<Result<GrammarRef>> grammar;
    GrammarRef made = {};  // null: it is being compiled
  };
  using Place = std::list<Entry>::iterator;

  void Settle(Place place, const Result<GrammarRef>& made);
  void Evict();
  int64_t Bytes() const;

  const int64_t budget_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the most recently used first
  std::unordered_map<std::string, Place> by_key_;
  Stats stats_;
};

}  // namespace thalweg::engine
