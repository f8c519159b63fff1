// Checks for programmer errors. TW_CHECK* stay on in release; TW_DCHECK* are for the data plane and
// are on in the dev, relassert and sanitizer builds (THALWEG_CHECKS).
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace thalweg::base {

// Prints file, line, the expression and details to stderr, then aborts.
[[noreturn]] void CheckFailed(const char* file, int line, std::string_view expression,
                              std::string_view details);

}  // namespace thalweg::base

#define TW_CHECK(cond)                                                        \
  do {                                                                        \
    if (!(cond)) ::thalweg::base::CheckFailed(__FILE__, __LINE__, #cond, {}); \
  } while (false)

#define TW_CHECK_OP(a, op, b)                                                 \
  do {                                                                        \
    const auto& tw_a = (a);                                                   \
    const auto& tw_b = (b);                                                   \
    if (!(tw_a op tw_b))                                                      \
      ::thalweg::base::CheckFailed(__FILE__, __LINE__, #a " " #op " " #b,     \
                                   fmt::format("{} against {}", tw_a, tw_b)); \
  } while (false)

#define TW_CHECK_EQ(a, b) TW_CHECK_OP(a, ==, b)
#define TW_CHECK_LE(a, b) TW_CHECK_OP(a, <=, b)
#define TW_CHECK_LT(a, b) TW_CHECK_OP(a, <, b)
#define TW_CHECK_GE(a, b) TW_CHECK_OP(a, >=, b)
#define TW_CHECK_GT(a, b) TW_CHECK_OP(a, >, b)

#ifdef THALWEG_CHECKS
#define TW_DCHECK(cond) TW_CHECK(cond)
#define TW_DCHECK_EQ(a, b) TW_CHECK_EQ(a, b)
#define TW_DCHECK_LE(a, b) TW_CHECK_LE(a, b)
#define TW_DCHECK_LT(a, b) TW_CHECK_LT(a, b)
#else
#define TW_DCHECK(cond) static_cast<void>(sizeof(!(cond)))
#define TW_DCHECK_EQ(a, b) static_cast<void>(sizeof((a) == (b)))
#define TW_DCHECK_LE(a, b) static_cast<void>(sizeof((a) <= (b)))
#define TW_DCHECK_LT(a, b) static_cast<void>(sizeof((a) < (b)))
#endif
