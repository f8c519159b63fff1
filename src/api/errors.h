// Errors of the engine as those of the public headers, and back.
#pragma once

#include <thalweg/error.h>

#include "base/status.h"

namespace thalweg::api {

// `status` must not be ok.
Error ToError(const Status& status);
Status ToStatus(const Error& error);

}  // namespace thalweg::api

// TW_TRY and TW_ASSIGN for functions that return Expected.
#define TW_API_TRY(expr)                                                                       \
  do {                                                                                         \
    if (::thalweg::Status tw_status = (expr); !tw_status.ok()) return api::ToError(tw_status); \
  } while (false)

#define TW_API_ASSIGN(lhs, expr) TW_API_ASSIGN_IMPL(TW_CONCAT(tw_result_, __LINE__), lhs, expr)
#define TW_API_ASSIGN_IMPL(tmp, lhs, expr)          \
  auto tmp = (expr);                                \
  if (!tmp.ok()) return api::ToError(tmp.status()); \
  lhs = std::move(tmp).value()
