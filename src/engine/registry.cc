#include "engine/registry.h"

#include <fmt/format.h>

namespace thalweg::engine {

// Distinct from every id under way, those that look like it included.
std::string Registry::FreshId(uint64_t sequence) const {
  std::string id = fmt::format("request-{}", sequence);
  while (by_id_.contains(id)) id += '+';
  return id;
}

Status Registry::Add(const std::shared_ptr<RequestRecord>& record,
                     const std::function<void()>& post) {
  const std::scoped_lock lock(mutex_);
  if (closed_) {
    return base::FailedPrecondition("the engine is being stopped and takes no new requests");
  }
  if (record->id.empty()) record->id = FreshId(record->first_sequence);
  if (by_id_.contains(record->id)) {
    return base::InvalidArgument(
        fmt::format("a request with id \"{}\" is under way: choose another id, or wait for its end",
                    record->id));
  }
  by_id_[record->id] = record;
  ++under_way_;
  post();
  return {};
}

void Registry::With(const std::string& id, const std::function<void(const RequestRecord&)>& post) {
  const std::scoped_lock lock(mutex_);
  const auto at = by_id_.find(id);
  if (at != by_id_.end()) post(*at->second);
}

void Registry::Release(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  by_id_.erase(id);
}

void Registry::Ended() {
  const std::scoped_lock lock(mutex_);
  if (--under_way_ == 0) empty_.notify_all();
}

void Registry::Close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
}

void Registry::WithAll(const std::function<void(const RequestRecord&)>& post) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, record] : by_id_) post(*record);
}

void Registry::WaitUntilEmpty() {
  std::unique_lock lock(mutex_);
  empty_.wait(lock, [&] { return under_way_ == 0; });
}

}  // namespace thalweg::engine
