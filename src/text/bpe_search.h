// Byte-pair encoding by search instead of merging. A row of tokens is the encoding of its text
// exactly when each two neighbours are the encoding of their joined text, and there is one such
// row: so take the longest token, check it against its left neighbour, and go back where nothing
// fits. Each end position fails at most once, which bounds the work per byte by the vocabulary.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/merge_table.h"
#include "text/pair_memo.h"

namespace thalweg::text {

class BpeSearch {
 public:
  // bytes[id] are the bytes of a token, empty for ids that no merge involves. byte_ids[b] is the
  // token of byte b. Nothing when the merges do not allow the search: a token is merged before one
  // of its parts can be, and the order of merges is then no bottom-up order.
  static std::optional<BpeSearch> Build(std::span<const std::string> bytes,
                                        std::span<const int32_t, 256> byte_ids,
                                        const std::vector<Merge>& merges);

  // Appends the tokens of `piece`.
  void Encode(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  static constexpr int32_t kByteRank = -1;   // a token of one byte, there from the start
  static constexpr int32_t kUnreached = -2;  // no text is encoded with this token

  // How the merges make a token when its bytes stand alone, and so in any text.
  struct Token {
    int32_t rank = kUnreached;
    int32_t left = 0;
    int32_t right = 0;
    int32_t shorter = ByteTrie::kNone;  // the longest token that is a proper prefix of this one
  };

  BpeSearch() = default;
  bool Derive(const std::vector<Merge>& merges);
  void Index(std::span<const std::string> bytes);
  bool Adjacent(int32_t left, int32_t right, int32_t limit) const;
  bool StayApart(int32_t left, int32_t right) const;
  void Search(std::string_view piece, std::vector<int32_t>& ids) const;

  MergeTable merges_;
  ByteTrie trie_;
  std::vector<Token> tokens_;      // [id]
  std::vector<uint16_t> lengths_;  // [id], in bytes
  PairMemo apart_;                 // answers of StayApart
};

}  // namespace thalweg::text
