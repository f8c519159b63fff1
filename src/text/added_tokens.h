// Finds added tokens in text as the Hugging Face library does: the leftmost, of those the longest;
// tokens with "normalized": false first, the others in what they leave.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/tokenizer_file.h"

namespace thalweg::text {

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Calls on_text and on_token for the parts of `text` in order; the text parts are not empty.
  struct Handler {
    std::function<void(std::string_view)> on_text;
    std::function<void(int32_t)> on_token;
  };
  void Split(std::string_view text, const Handler& handler) const;

 private:
  struct Match {
    size_t start = 0;
    size_t end = 0;
    const AddedToken* token = nullptr;
  };

  bool FindNext(const ByteTrie& trie, std::string_view text, size_t from, Match& match) const;
  void SplitBy(size_t pass, std::string_view text, const Handler& handler) const;

  std::vector<AddedToken> tokens_;
  std::vector<ByteTrie> passes_;  // values are indices into tokens_
};

}  // namespace thalweg::text
