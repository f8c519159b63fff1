// The tokens of a model as a trie of bytes: what masks are made from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace thalweg::grammar {

// Immutable, shared by every grammar of an engine.
class Vocabulary {
 public:
  struct Options {
    int32_t size = 0;  // of the model's logits, at least the tokenizer's; tokens beyond the
                       // tokenizer's are never allowed
    std::vector<int32_t> end_tokens = {};
  };
  // Special tokens (Tokenizer::IsSpecial) have no bytes here: only Symbol::kToken allows them.
  // Added tokens that are not special have their text as bytes, and can be named by kToken as well.
  static std::shared_ptr<const Vocabulary> Of(const text::Tokenizer& tokenizer, Options options);
  // bytes[i] is that of token i; an empty string: a special token.
  static std::shared_ptr<const Vocabulary> OfBytes(std::vector<std::string> bytes, Options options);
  ~Vocabulary();

  int32_t size() const;
  int64_t mask_words() const;  // ceil(size / 32)
  std::string_view bytes_of(int32_t token) const;
  bool special(int32_t token) const;
  std::span<const int32_t> end_tokens() const;
  // Whether some token's bytes begin with these, and go on.
  bool HasLonger(std::string_view bytes) const;

  struct Trie;  // vocabulary_trie.h: for the automaton alone
  const Trie& trie() const { return *trie_; }

 private:
  Vocabulary();
  struct Data;
  std::unique_ptr<Data> data_;
  std::unique_ptr<Trie> trie_;
};

}  // namespace thalweg::grammar
