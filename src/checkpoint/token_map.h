// The compressed token ids of the Engram hash (spec/model.md 2.3): two tokens whose normalised text
// is equal share an id. The release does not ship the map; it is computed from the tokenizer and
// cached.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"

namespace thalweg::text {
class Tokenizer;
}

namespace thalweg::checkpoint {

struct TokenMap {
  std::vector<int32_t> ids;  // [token id] -> compressed id
  int64_t distinct = 0;      // compressed ids are 0 .. distinct-1
};

// The normalised form that tokens are compared by: NFKC, NFD, no marks, lower case, white space
// folded. `text` is valid UTF-8.
Result<std::string> NormalizeTokenText(std::string_view text);

// Compressed ids in order of first appearance, for every id of the tokenizer.
Result<TokenMap> ComputeTokenMap(const text::Tokenizer& tokenizer);

// The map of a checkpoint directory: engram_token_map.bin where there is one (size and range
// checked), else a copy cached under $XDG_CACHE_HOME/thalweg or ~/.cache/thalweg, else computed
// from tokenizer.json and cached. A cache that cannot be written is a log line. An error when the
// number of distinct ids differs from engram_compressed_vocab_size. The result has vocab_size
// entries: ids beyond the tokenizer share the compressed id of engram_pad_token_id.
Result<TokenMap> LoadTokenMap(const std::filesystem::path& dir, const Config& config);

}  // namespace thalweg::checkpoint
