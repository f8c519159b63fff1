// Texts that commands measure: token ids given directly, in a text file, or in JSONL.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/session.h"

namespace thalweg::tools {

struct Document {
  std::vector<int32_t> ids;
};

// Rows of --ids, --text and --ids-file.
std::vector<OptionRow> DocumentOptionRows();
// What they name; exactly one of them must be given. An error when no document has two tokens.
Result<std::vector<Document>> ReadDocuments(const OptionValues& values, const Session& session);

}  // namespace thalweg::tools
