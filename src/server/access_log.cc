#include "server/access_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "base/json.h"

namespace thalweg::server {
namespace {

using base::Json;

double Milliseconds(std::chrono::steady_clock::duration duration) {
  const double us =
      static_cast<double>(std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
  return us / 1000;
}

std::string Now() {
  const auto now = std::chrono::system_clock::now();
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms % 1000);
}

}  // namespace

std::string RecordLine(const RequestRecord& record) {
  Json json;
  json["time"] = Now();
  json["id"] = record.id;
  json["method"] = record.method;
  json["path"] = record.path;
  json["status"] = record.status;
  json["ms"] = Milliseconds(record.end - record.begin);
  if (record.first_byte > record.begin)
    json["first_byte_ms"] = Milliseconds(record.first_byte - record.begin);
  if (record.stream) json["stream"] = true;
  if (!record.caller.empty()) json["key"] = record.caller;
  if (!record.remote.empty()) json["remote"] = record.remote;
  if (record.usage.prompt > 0) {
    json["prompt_tokens"] = record.usage.prompt;
    json["cached_tokens"] = record.usage.cached;
    json["completion_tokens"] = record.usage.completion;
  }
  if (!record.finish.empty()) json["finish"] = record.finish;
  if (!record.error.empty()) json["error"] = record.error;
  if (!record.body.empty()) json["body"] = record.body;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::unique_ptr<AccessLog>> AccessLog::Open(const std::string& path, bool bodies) {
  const bool owned = !path.empty() && path != "-";
  std::FILE* file = path == "-" ? stderr : nullptr;
  if (owned) file = std::fopen(path.c_str(), "a");
  if (owned && file == nullptr)
    return base::IoError(fmt::format("access log {}: {}", path, std::strerror(errno)));
  return std::unique_ptr<AccessLog>(new AccessLog(file, owned, bodies));
}

AccessLog::~AccessLog() {
  if (owned_) std::fclose(file_);
}

void AccessLog::Write(const RequestRecord& record) {
  if (file_ == nullptr) return;
  const std::string line = RecordLine(record) + "\n";
  const std::scoped_lock lock(mutex_);
  std::fwrite(line.data(), 1, line.size(), file_);
}

void AccessLog::Flush() {
  if (file_ == nullptr) return;
  const std::scoped_lock lock(mutex_);
  std::fflush(file_);
}

}  // namespace thalweg::server
