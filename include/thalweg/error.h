// What went wrong, as a value: nothing of this library throws.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "thalweg/export.h"

namespace thalweg {

// The numbers are those of the C interface (thalweg.h) and stay as they are.
enum class ErrorCode {
  kInvalidArgument = 1,     // a value of the caller's is wrong
  kNotFound = 2,            // a named thing does not exist
  kFailedPrecondition = 3,  // right call, wrong state
  kOutOfRange = 4,          // beyond a documented limit
  kUnsupported = 5,         // valid, but not something this version does
  kResourceExhausted = 6,   // memory, blocks, slots
  kIo = 7,                  // the operating system refused
  kInternal = 8,            // a defect of this library
};

// "invalid_argument", "not_found", ...: for JSON and for programs.
THALWEG_API const char* ErrorCodeName(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message = {};  // says what to do
};

namespace detail {
// Prints the error and aborts: value() was called on an error.
[[noreturn]] THALWEG_API void FailAccess(const Error& error);
}  // namespace detail

// A value, or the error that stands in its place.
template <typename T>
class [[nodiscard]] Expected {
 public:
  // Implicit on purpose: `return value;` and `return Error{...};` both read well.
  // NOLINTBEGIN(google-explicit-constructor)
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Expected(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  // NOLINTEND(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  // Call on an error only.
  const Error& error() const { return std::get<1>(state_); }
  // On an error these print it and abort.
  T& value() & { return Check(), std::get<0>(state_); }
  const T& value() const& { return Check(), std::get<0>(state_); }
  // By value: `for (... : *llm.Stream(...))` must not iterate over what is gone.
  T value() && { return Check(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void Check() const {
    if (!ok()) detail::FailAccess(error());
  }
  std::variant<T, Error> state_;
};

}  // namespace thalweg
