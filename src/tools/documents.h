// Texts that commands measure: token ids given directly, in a text file, or in JSONL.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/session.h"

namespace thalweg::tools {

struct Document {
  std::vector<int32_t> ids;
};

// Token ids written as "12,7 9": numbers separated by commas or spaces, at least one.
Result<std::vector<int32_t>> ParseTokenIds(std::string_view text);

// Rows of --ids, --text and --ids-file.
std::vector<OptionRow> DocumentOptionRows();
// Of a file of --ids-file: JSONL, or a JSON array, of objects with "ids" or "text". An error when
// no document has two tokens.
Result<std::vector<Document>> ReadDocumentFile(const std::string& path, const Session& session);
// What they name; exactly one of them must be given. An error when no document has two tokens.
Result<std::vector<Document>> ReadDocuments(const OptionValues& values, const Session& session);

}  // namespace thalweg::tools
