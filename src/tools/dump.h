// `thalweg dump`: the intermediate tensors of one forward as a safetensors file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/model.h"

namespace thalweg::tools {

// Which points (model/probe.h) to keep; an empty list keeps all.
struct DumpFilter {
  std::vector<int> layers;          // points of the whole forward have the number of layers
  std::vector<std::string> points;  // names
};

// Runs one forward over `ids`, with logits of every position, on a sequence of its own, and writes
// every point of the target's layers and of the whole forward that passes the filter as
// "<layer>/<point>". Returns the number of tensors. Errors: a point name or layer that does not
// exist, nothing left to write, what the model refuses (rows, vocabulary, context), a file that
// cannot be written.
Result<int64_t> Dump(model::Model& model, std::span<const int32_t> ids, const DumpFilter& filter,
                     const std::filesystem::path& out);

}  // namespace thalweg::tools
