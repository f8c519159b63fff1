// The tokens of a vocabulary, arranged for making masks: as one tree of bytes, and, per alphabet of
// plain characters, as bit sets of the tokens made only of them and a tree of the rest.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "grammar/regex_arena.h"
#include "grammar/vocabulary.h"

namespace thalweg::grammar {

// Strings as a tree of bytes, flattened: nodes in preorder, so that a walk is a loop and a subtree
// that is out of the question is skipped by one jump.
struct ByteTrie {
  struct Node {
    int32_t skip;         // the node after this subtree
    int32_t first_token;  // in `tokens`; those of this node end where the next node's begin
    int32_t depth;        // bytes from the root, which is node 0
    uint32_t prefixes;    // of the tokens in this subtree: OR of 1 << prefix
    uint8_t byte;         // the last one of the node's string
  };
  struct Entry {
    std::string_view text;
    int32_t token = 0;
    uint8_t prefix = 0;  // 0 to 31: what walks can filter by
  };

  static ByteTrie Of(std::vector<Entry> entries);

  int32_t size() const { return static_cast<int32_t>(nodes.size()) - 1; }
  // Whether a string begins with `bytes`, and goes on.
  bool HasLonger(std::string_view bytes) const;
  // Of the node and its subtree: [first, last) in `tokens`.
  int32_t FirstToken(int32_t node) const { return nodes[static_cast<size_t>(node)].first_token; }

  std::vector<Node> nodes = {};  // and one more at the end, which closes the last ranges
  std::vector<int32_t> tokens = {};
  std::vector<uint8_t> prefixes = {};  // of each of `tokens`
  int32_t deepest = 0;
};

// A set of characters that texts of many kinds are made of. States of a grammar often take every
// character of one alike (inside a JSON string, an identifier, free text), which decides most
// tokens at once.
struct Alphabet {
  static constexpr int32_t kMost = 20;  // characters of tokens that are counted apart

  ByteSet ascii = {};         // its characters of one byte
  bool beyond_ascii = false;  // and those of kCharacterSequences

  // Bytes of the first character of `text`; 0: it is not of this alphabet.
  int32_t CharacterBytes(std::string_view text) const;

  // [k]: the tokens of 1 to k characters and nothing else; the last one: of any length.
  std::vector<std::vector<uint32_t>> up_to = {};
  // Tokens with another byte somewhere, by what remains from there; prefix: how many characters
  // come before (kMost + 1: more than kMost).
  ByteTrie rest = {};
  // Whole tokens that begin with more than kMost characters.
  ByteTrie longer = {};
};

// UTF-8 of the characters beyond ASCII, but for a few blocks with spaces and format characters that
// regular expressions tell apart (U+0080-00BF, U+1680-16BF, U+2000-207F, U+3000, U+FEC0-FEFF).
struct ByteRange {
  uint8_t first;
  uint8_t last;
};
struct CharacterSequence {
  int32_t length;
  std::array<ByteRange, 4> bytes;
};
std::span<const CharacterSequence> CharacterSequences();

inline constexpr int32_t kAlphabets = 6;

struct Vocabulary::Trie {
  ByteTrie whole = {};
  std::array<int32_t, 256> nodes_from = {};  // of `whole`, by first byte
  std::array<Alphabet, kAlphabets> alphabets = {};
  // By a byte that is in few tokens: those that contain it somewhere. Such a byte may be an
  // exception to an alphabet, for few tokens have to be looked at one by one then.
  std::array<ByteTrie, 128> containing = {};
  ByteSet exceptions = {};
};

}  // namespace thalweg::grammar
