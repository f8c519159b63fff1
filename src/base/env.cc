#include "base/env.h"

#include <cstdlib>

namespace thalweg::base {

std::optional<std::string> ReadEnvironment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace thalweg::base
