// Requests under way by their ids, and the way out: drained when none is left.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

#include "engine/record.h"

namespace thalweg::engine {

class Registry {
 public:
  // Enters a request, which gets an id if it has none, and calls `post` while nothing else can come
  // between. kInvalidArgument: the id is taken. kFailedPrecondition: closed.
  Status Add(const std::shared_ptr<RequestRecord>& record, const std::function<void()>& post);
  // Calls `post` for the request of that id, if there is one.
  void With(const std::string& id, const std::function<void(const RequestRecord&)>& post);

  // The id is free again; the request still counts.
  void Release(const std::string& id);
  // The request has had its last word.
  void Ended();

  // No request enters from now on.
  void Close();
  void WithAll(const std::function<void(const RequestRecord&)>& post);
  void WaitUntilEmpty();

 private:
  std::string FreshId(uint64_t sequence) const;

  std::mutex mutex_;
  std::condition_variable empty_;
  std::unordered_map<std::string, RecordRef> by_id_;
  int64_t under_way_ = 0;
  bool closed_ = false;
};

}  // namespace thalweg::engine
