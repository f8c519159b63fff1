// The vocabulary, merges and added tokens of a tokenizer.json, read and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "text/json_fields.h"
#include "text/merge_table.h"

namespace thalweg::text {

inline constexpr uint64_t kMaxTokenizerFileBytes = 256u << 20;
inline constexpr int32_t kMaxTokenId = (1 << 21) - 1;
inline constexpr size_t kMaxTokenBytes = 4096;  // of one token's spelling

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;   // matched after the tokens that are not
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and after it
  bool single_word = false;  // not inside a word
};

// "model" of type BPE.
struct BpeFile {
  std::vector<std::string> tokens;  // [id]; empty where the file has none
  std::unordered_map<std::string, int32_t> ids;
  std::vector<Merge> merges;  // in rank order
  std::optional<int32_t> unk;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

Result<BpeFile> ReadBpe(const JsonField& model);

// Checked against the model: an added token that the model knows too has the same id there, no two
// have the same id or content, and the merges make none of them (text could spell it otherwise).
Result<std::vector<AddedToken>> ReadAddedTokens(const JsonField& root, const BpeFile& model);

}  // namespace thalweg::text
