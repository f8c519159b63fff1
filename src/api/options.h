// Options of a public LLM as those of the engine, and as rows for its users.
#pragma once

#include <thalweg/llm.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "engine/options.h"

namespace thalweg::api {

// "max_rows" and "max-rows" name the same row.
std::string OptionName(std::string_view name);

// Checks names and values, then fills in environment, option file and defaults. Where nothing names
// a model, the checkpoint that comes with the library does, when it is there.
Result<engine::EngineOptions> ResolveOptions(const LLMOptions& options);

// models/nano near this library or program: in its folder (a Python package), in ../share/thalweg
// (installed), or in a folder above (a build).
std::optional<std::filesystem::path> EmbeddedModel();

std::vector<OptionInfo> DescribeOptions();

}  // namespace thalweg::api
