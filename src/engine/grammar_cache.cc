#include "engine/grammar_cache.h"

#include <utility>

namespace thalweg::engine {

// Only whoever compiles takes a place off the list while it is being compiled, so it stays valid.
Result<GrammarRef> GrammarCache::Get(const std::string& key, const Compile& compile) {
  std::unique_lock lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    ++stats_.hits;
    entries_.splice(entries_.begin(), entries_, found->second);
    const std::shared_future<Result<GrammarRef>> grammar = found->second->grammar;
    lock.unlock();
    return grammar.get();
  }
  std::promise<Result<GrammarRef>> promise;
  entries_.push_front({.key = key, .grammar = promise.get_future().share()});
  const Place place = entries_.begin();
  by_key_[key] = place;
  lock.unlock();
  Result<GrammarRef> made = compile();
  promise.set_value(made);
  Settle(place, made);
  return made;
}

void GrammarCache::Settle(Place place, const Result<GrammarRef>& made) {
  const std::scoped_lock lock(mutex_);
  if (made.ok()) {
    ++stats_.compiled;
    place->made = *made;
    Evict();
  } else {
    ++stats_.failed;
    by_key_.erase(place->key);
    entries_.erase(place);
  }
}

// Grammars grow as they are used, so they are weighed anew each time.
int64_t GrammarCache::Bytes() const {
  int64_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.made == nullptr ? 0 : entry.made->bytes();
  return bytes;
}

void GrammarCache::Evict() {
  int64_t bytes = Bytes();
  for (auto at = entries_.end(); at != entries_.begin() && bytes > budget_bytes_;) {
    --at;
    if (at->made == nullptr) continue;
    bytes -= at->made->bytes();
    ++stats_.evicted;
    by_key_.erase(at->key);
    at = entries_.erase(at);
  }
}

GrammarCache::Stats GrammarCache::stats() const {
  const std::scoped_lock lock(mutex_);
  Stats stats = stats_;
  stats.grammars = static_cast<int64_t>(entries_.size());
  stats.bytes = Bytes();
  return stats;
}

}  // namespace thalweg::engine
