// Options of a public LLM as those of the engine, and as rows for its users.
#pragma once

#include <thalweg/llm.h>

#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "engine/options.h"

namespace thalweg::api {

// "max_rows" and "max-rows" name the same row.
std::string OptionName(std::string_view name);

// Checks names and values, then fills in environment, option file and defaults.
Result<engine::EngineOptions> ResolveOptions(const LLMOptions& options);

std::vector<OptionInfo> DescribeOptions();

}  // namespace thalweg::api
