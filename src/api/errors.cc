#include "api/errors.h"

namespace thalweg {
namespace api {

Error ToError(const Status& status) {
  TW_CHECK(!status.ok());
  return {.code = static_cast<ErrorCode>(status.code()), .message = status.message()};
}

Status ToStatus(const Error& error) {
  return Status(static_cast<base::Code>(error.code), error.message);
}

// The two lists of codes are one list: a cast is the conversion.
static_assert(static_cast<int>(base::Code::kInvalidArgument) ==
              static_cast<int>(ErrorCode::kInvalidArgument));
static_assert(static_cast<int>(base::Code::kNotFound) == static_cast<int>(ErrorCode::kNotFound));
static_assert(static_cast<int>(base::Code::kFailedPrecondition) ==
              static_cast<int>(ErrorCode::kFailedPrecondition));
static_assert(static_cast<int>(base::Code::kOutOfRange) ==
              static_cast<int>(ErrorCode::kOutOfRange));
static_assert(static_cast<int>(base::Code::kUnsupported) ==
              static_cast<int>(ErrorCode::kUnsupported));
static_assert(static_cast<int>(base::Code::kResourceExhausted) ==
              static_cast<int>(ErrorCode::kResourceExhausted));
static_assert(static_cast<int>(base::Code::kIo) == static_cast<int>(ErrorCode::kIo));
static_assert(static_cast<int>(base::Code::kInternal) == static_cast<int>(ErrorCode::kInternal));

}  // namespace api

const char* ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kFailedPrecondition: return "failed_precondition";
    case ErrorCode::kOutOfRange: return "out_of_range";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kResourceExhausted: return "resource_exhausted";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kInternal: return "internal";
  }
  return "internal";
}

void detail::FailAccess(const Error& error) {
  base::CheckFailed(__FILE__, __LINE__, "value() of an error", error.message);
}

}  // namespace thalweg
