// Logging for people, on stderr. Levels: debug, info, warn, error; default info.
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

#include "base/status.h"

namespace thalweg::base {

// Sets up the logger once, at the start of a program. An unknown level name is an error that lists
// the known ones.
Status SetUpLog(std::string_view level);

}  // namespace thalweg::base
