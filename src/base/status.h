// Errors that a user or an outside file can cause are values: Status (code and message) and
// Result<T>.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace thalweg::base {

enum class Code {
  kOk,
  kInvalidArgument,     // the caller's value or file content is wrong
  kNotFound,            // a named thing does not exist
  kFailedPrecondition,  // right call, wrong state
  kOutOfRange,          // beyond a documented limit
  kUnsupported,         // valid, but not something this build or backend does
  kResourceExhausted,   // memory, blocks, slots
  kIo,                  // the operating system refused
  kInternal,
};

// Short lower-case name of a code, for messages and JSON ("invalid argument").
std::string_view CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same error with "context: " before its message; ok stays ok.
  Status WithContext(std::string_view context) const;
  // "invalid argument: message", for people.
  std::string ToString() const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

Status InvalidArgument(std::string message);
Status NotFound(std::string message);
Status FailedPrecondition(std::string message);
Status OutOfRange(std::string message);
Status Unsupported(std::string message);
Status ResourceExhausted(std::string message);
Status IoError(std::string message);
Status Internal(std::string message);

// A value or the error that stands in its place. value() on an error is a programmer error.
template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose: `return value;` and `return InvalidArgument(...);` both read well.
  // NOLINTBEGIN(google-explicit-constructor)
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {
    TW_CHECK(!std::get<1>(state_).ok());
  }
  // NOLINTEND(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }
  T& value() & {
    RequireOk();
    return std::get<0>(state_);
  }
  const T& value() const& {
    RequireOk();
    return std::get<0>(state_);
  }
  T&& value() && {
    RequireOk();
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void RequireOk() const {
    if (!ok()) CheckFailed(__FILE__, __LINE__, "result.ok()", std::get<1>(state_).ToString());
  }
  std::variant<T, Status> state_;
};

}  // namespace thalweg::base

namespace thalweg {
using base::Result;
using base::Status;
}  // namespace thalweg

#define TW_CONCAT_INNER(a, b) a##b
#define TW_CONCAT(a, b) TW_CONCAT_INNER(a, b)

// Returns the error of a Status expression to the caller.
#define TW_TRY(expr)                                                             \
  do {                                                                           \
    if (::thalweg::Status tw_status = (expr); !tw_status.ok()) return tw_status; \
  } while (false)

// TW_ASSIGN(auto x, F()): x = value of the Result, or return its error.
#define TW_ASSIGN(lhs, expr) TW_ASSIGN_IMPL(TW_CONCAT(tw_result_, __LINE__), lhs, expr)
#define TW_ASSIGN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                   \
  if (!tmp.ok()) return tmp.status();  \
  lhs = std::move(tmp).value()
