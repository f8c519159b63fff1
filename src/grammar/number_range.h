// The numbers of JSON that a schema allows, as a regular language.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "grammar/limits.h"
#include "grammar/regex_arena.h"

namespace thalweg::grammar {

// Bounds and divisor are JSON numbers as text (Json::dump), taken as exact decimals.
struct NumberBounds {
  bool integer = false;  // type "integer": the value is whole, however it is spelled
  std::optional<std::string> minimum = {};
  std::optional<std::string> exclusive_minimum = {};
  std::optional<std::string> maximum = {};
  std::optional<std::string> exclusive_maximum = {};
  std::optional<std::string> multiple_of = {};
};

// Spellings (RFC 8259 section 6) whose value is allowed; -0 is 0, 1.0 is an integer (JSON Schema
// validation 6.1.1). Without any bound or `integer`: all of them. Otherwise every spelling without
// an exponent, and with one those that writers make: one digit that is not 0, a fraction or none,
// `e` or `E`, an exponent of -400 to 307; with multiple_of, no exponents. For integers the
// exponent is at least 16 after a fraction (as printed by Python and JavaScript for large whole
// values), at least 0 without one. A spelling that is left out (12e1, 0e5) is a valid instance
// refused; no invalid one is let through.
//
// kNothing when no number is allowed. Errors: kInvalidArgument for what is not a number or a
// multiple_of that is not above 0; kUnsupported for a divisor that needs too many states.
Result<RegexId> NumberRange(const NumberBounds& bounds, const Limits& limits, RegexArena* arena);

}  // namespace thalweg::grammar
