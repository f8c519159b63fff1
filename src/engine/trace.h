// A timeline in the Trace Event Format of Chrome ("JSON Array Format"), which Perfetto reads:
// steps, plans and outputs as spans of their threads, the ops of steps on a line of their own,
// requests as asynchronous spans, counters.
// Written while the engine runs; a file that was cut off can still be read.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/status.h"
#include "sched/scheduler.h"

namespace thalweg::engine {

class Trace {
 public:
  enum class Thread { kPlan = 1, kExecute = 2, kOutput = 3, kOps = 4 };

  // An empty path: nothing is recorded.
  static Result<std::unique_ptr<Trace>> Open(const std::string& path);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  bool on() const { return file_ != nullptr; }
  // Times are seconds since the engine started; `args` is the inside of a JSON object.
  void Span(Thread thread, std::string_view name, double begin, double end, std::string_view args);
  void RequestBegin(uint64_t sequence, std::string_view id, double at, std::string_view args);
  void RequestMark(uint64_t sequence, std::string_view what, double at);
  void RequestEnd(uint64_t sequence, std::string_view finish, double at);
  void Counters(const sched::SchedulerStats& stats, double at);
  // Writes what was recorded. The one call that touches the disk: the output thread's.
  void Flush();

 private:
  explicit Trace(std::FILE* file);
  void Append(std::string event);

  std::FILE* file_;
  bool failed_ = false;
  std::mutex mutex_;
  std::string pending_;
  uint64_t dropped_ = 0;  // events that came while too much was pending
};

}  // namespace thalweg::engine
