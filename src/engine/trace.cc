#include "engine/trace.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/json.h"

namespace thalweg::engine {
namespace {

// What may wait for the disk; events beyond are dropped and counted.
constexpr size_t kMaxPendingBytes = 8u << 20;

double Microseconds(double seconds) { return seconds * 1e6; }

// As a JSON string; ids come from outside and may hold anything.
std::string Quoted(std::string_view text) {
  return base::Json(text).dump(-1, ' ', false, base::Json::error_handler_t::replace);
}

std::string ThreadName(Trace::Thread thread, std::string_view name) {
  return fmt::format(R"({{"ph":"M","pid":1,"tid":{},"name":"thread_name","args":{{"name":"{}"}}}},)"
                     "\n",
                     static_cast<int>(thread), name);
}

}  // namespace

Result<std::unique_ptr<Trace>> Trace::Open(const std::string& path) {
  if (path.empty()) return std::unique_ptr<Trace>(new Trace(nullptr));
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    return base::IoError(fmt::format("cannot write the trace file {}: {}", path,
                                     std::generic_category().message(errno)));
  }
  return std::unique_ptr<Trace>(new Trace(file));
}

Trace::Trace(std::FILE* file) : file_(file) {
  pending_ = "[\n" + ThreadName(Thread::kPlan, "plan") + ThreadName(Thread::kExecute, "execute") +
             ThreadName(Thread::kOutput, "output") + ThreadName(Thread::kOps, "ops");
}

Trace::~Trace() {
  if (!on()) return;
  if (dropped_ > 0) spdlog::warn("trace: {} events were dropped, the disk was too slow", dropped_);
  // The last event closes the array; it may have no comma behind it.
  Append(R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"thalweg"}}]
)");
  Flush();
  std::fclose(file_);
}

void Trace::Append(std::string event) {
  const std::scoped_lock lock(mutex_);
  if (pending_.size() + event.size() > kMaxPendingBytes) {
    ++dropped_;
  } else {
    pending_ += event;
  }
}

void Trace::Span(Thread thread, std::string_view name, double begin, double end,
                 std::string_view args) {
  if (!on()) return;
  Append(fmt::format(
      R"({{"ph":"X","pid":1,"tid":{},"name":"{}","ts":{:.3f},"dur":{:.3f},"args":{{{}}}}},)"
      "\n",
      static_cast<int>(thread), name, Microseconds(begin), Microseconds(end - begin), args));
}

void Trace::RequestBegin(uint64_t sequence, std::string_view id, double at, std::string_view args) {
  if (!on()) return;
  Append(fmt::format(
      R"({{"ph":"b","cat":"request","id":{},"pid":1,"tid":0,"name":"request","ts":{:.3f},)"
      R"("args":{{"id":{},{}}}}},)"
      "\n",
      sequence, Microseconds(at), Quoted(id), args));
}

void Trace::RequestMark(uint64_t sequence, std::string_view what, double at) {
  if (!on()) return;
  Append(
      fmt::format(R"({{"ph":"n","cat":"request","id":{},"pid":1,"tid":0,"name":"{}","ts":{:.3f}}},)"
                  "\n",
                  sequence, what, Microseconds(at)));
}

void Trace::RequestEnd(uint64_t sequence, std::string_view finish, double at) {
  if (!on()) return;
  Append(fmt::format(
      R"({{"ph":"e","cat":"request","id":{},"pid":1,"tid":0,"name":"request","ts":{:.3f},)"
      R"("args":{{"finish":"{}"}}}},)"
      "\n",
      sequence, Microseconds(at), finish));
}

void Trace::Counters(const sched::SchedulerStats& stats, double at) {
  if (!on()) return;
  Append(fmt::format(
      R"({{"ph":"C","pid":1,"name":"requests","ts":{:.3f},"args":{{"waiting":{},"running":{}}}}},)"
      "\n"
      R"({{"ph":"C","pid":1,"name":"blocks","ts":{:.3f},)"
      R"("args":{{"used":{},"cached":{},"free":{}}}}},)"
      "\n",
      Microseconds(at), stats.waiting, stats.running, Microseconds(at), stats.used_blocks,
      stats.cached_blocks, stats.free_blocks));
}

void Trace::Flush() {
  if (!on()) return;
  std::string text;
  {
    const std::scoped_lock lock(mutex_);
    text.swap(pending_);
  }
  if (text.empty() || std::fwrite(text.data(), 1, text.size(), file_) == text.size()) return;
  if (!std::exchange(failed_, true)) {
    spdlog::warn("trace: writing failed: {}", std::generic_category().message(errno));
  }
}

}  // namespace thalweg::engine
