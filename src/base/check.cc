#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace thalweg::base {

void CheckFailed(const char* file, int line, std::string_view expression,
                 std::string_view details) {
  fmt::print(stderr, "{}:{}: check failed: {}{}{}\n", file, line, expression,
             details.empty() ? "" : ": ", details);
  std::fflush(stderr);
  std::abort();
}

}  // namespace thalweg::base
