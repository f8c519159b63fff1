#include "base/status.h"

#include <fmt/format.h>

namespace thalweg::base {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kNotFound: return "not found";
    case Code::kFailedPrecondition: return "failed precondition";
    case Code::kOutOfRange: return "out of range";
    case Code::kUnsupported: return "unsupported";
    case Code::kResourceExhausted: return "resource exhausted";
    case Code::kIo: return "input/output error";
    case Code::kInternal: return "internal error";
  }
  return "unknown";
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return Status(code_, fmt::format("{}: {}", context, message_));
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return fmt::format("{}: {}", CodeName(code_), message_);
}

Status InvalidArgument(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }
Status NotFound(std::string message) { return {Code::kNotFound, std::move(message)}; }
Status FailedPrecondition(std::string message) {
  return {Code::kFailedPrecondition, std::move(message)};
}
Status OutOfRange(std::string message) { return {Code::kOutOfRange, std::move(message)}; }
Status Unsupported(std::string message) { return {Code::kUnsupported, std::move(message)}; }
Status ResourceExhausted(std::string message) {
  return {Code::kResourceExhausted, std::move(message)};
}
Status IoError(std::string message) { return {Code::kIo, std::move(message)}; }
Status Internal(std::string message) { return {Code::kInternal, std::move(message)}; }

}  // namespace thalweg::base
