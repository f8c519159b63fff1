// What the results of a run depend on, so that a run that goes on later is the same run.
#pragma once

#include <filesystem>
#include <string>

#include "base/options.h"
#include "base/status.h"

namespace thalweg::tools {

// " name=value" of every option of the engine that changes results.
std::string EngineIdentity(const base::OptionValues& values);

// SHA-256 in hexadecimal of what a model's folder holds: its JSON files whole; of shards their
// names, sizes and some bytes spread over each, which tells two trainings apart without reading
// 500 GB. Hidden files do not count.
Result<std::string> ModelIdentity(const std::filesystem::path& folder);

}  // namespace thalweg::tools
