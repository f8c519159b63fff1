// The one place that reads environment variables.
#pragma once

#include <optional>
#include <string>

namespace thalweg::base {

// The value of an environment variable; nothing when it is unset or empty.
std::optional<std::string> ReadEnvironment(const char* name);

}  // namespace thalweg::base
