// The "model" of a tokenizer.json at work: pieces in, token ids out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "text/bpe_search.h"
#include "text/byte_trie.h"
#include "text/merge_table.h"
#include "text/tokenizer_file.h"

namespace thalweg::text {

class BpeModel {
 public:
  // With byte_level, pieces are bytes that tokens spell in the printable alphabet; otherwise
  // pieces are UTF-8 and tokens spell them as they are. Added tokens never come out of a piece
  // (the unknown token excepted); a byte that is one is an error.
  static Result<BpeModel> Build(const BpeFile& file, std::span<const AddedToken> added,
                                bool byte_level);

  // Appends the tokens of one piece.
  void Encode(std::string_view piece, std::vector<int32_t>& ids) const;

  // Whether pieces take the fast search and not the merging by definition. Both give the same.
  bool searches() const { return search_.has_value(); }

  // The same by the definition, whatever searches() says: the yardstick of tests.
  void EncodeByMerging(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  BpeModel() = default;
  Status BuildSearch(const BpeFile& file);
  void BuildFallback(const BpeFile& file);
  void AddSymbols(std::string_view piece, std::vector<int32_t>& symbols) const;
  bool AddFallbackBytes(std::string_view character, std::vector<int32_t>& symbols) const;

  bool byte_level_ = false;
  bool fuse_unk_ = false;
  std::optional<int32_t> unk_;
  std::unordered_map<std::string, int32_t> characters_;  // tokens of one character
  std::vector<int32_t> fallback_;                        // [byte]: id of "<0x..>" or -1; or empty
  std::optional<ByteTrie> whole_;                        // ignore_merges: pieces that are tokens
  MergeTable merges_;
  std::optional<BpeSearch> search_;
};

}  // namespace thalweg::text
