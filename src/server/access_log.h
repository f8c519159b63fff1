// One JSON line for each request that has ended. Text of prompts and answers is in it only when it
// was asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "server/reply.h"

namespace thalweg::server {

// 499: the client went away before its answer was complete.
inline constexpr int kClientClosed = 499;

struct RequestRecord {
  std::string id = {}, method = {}, path = {}, caller = {}, remote = {};
  int status = 0;
  bool stream = false;
  Usage usage = {};
  std::string finish = {};
  std::string error = {};  // message
  std::chrono::steady_clock::time_point begin = {}, first_byte = {}, end = {};
  std::string body = {};  // of the request, with --log-bodies
};

// Thread-safe.
class AccessLog {
 public:
  // "": nothing is written; "-": stderr; else a file that is appended to.
  static Result<std::unique_ptr<AccessLog>> Open(const std::string& path, bool bodies);
  ~AccessLog();

  bool bodies() const { return bodies_; }
  void Write(const RequestRecord& record);
  // Lines wait in memory until this is called, about once a second.
  void Flush();

 private:
  AccessLog(std::FILE* file, bool owned, bool bodies)
      : file_(file), owned_(owned), bodies_(bodies) {}

  std::FILE* file_;  // null: nothing is written
  bool owned_;
  bool bodies_;
  std::mutex mutex_;
};

// The line, without its end.
std::string RecordLine(const RequestRecord& record);

}  // namespace thalweg::server
