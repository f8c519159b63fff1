// Masks of rows, made by walking trees of tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "grammar/earley_rows.h"
#include "grammar/matcher.h"
#include "grammar/vocabulary_trie.h"

namespace thalweg::grammar {

// Scratch memory for walks. Every method answers false when the rows have failed, and then `mask`
// is of no use.
class MaskWalk {
 public:
  static constexpr uint32_t kEveryPrefix = ~uint32_t{0};

  MaskWalk(Rows* rows, Mask* mask) : rows_(*rows), mask_(*mask) {}

  // Sets the bits of the tokens in `trie` that `row` may continue with, of those whose prefix is in
  // the bit set `prefixes`.
  bool Walk(const ByteTrie& trie, int32_t row, uint32_t prefixes = kEveryPrefix);
  // The same for several rows, each for tokens of other prefixes; one walk where they come together
  // after one byte.
  struct Start {
    int32_t row;
    uint32_t prefixes;
  };
  bool WalkAll(const ByteTrie& trie, std::span<const Start> starts);
  // The mask holds what `from` allows of the tokens in `trie`; afterwards, what `to` allows. Costs
  // as much as the two differ: where both come to the same row, the rest is the same.
  bool Change(const ByteTrie& trie, int32_t from, int32_t to);
  // Clears the bits of all tokens in `trie`.
  void Clear(const ByteTrie& trie);

 private:
  bool WalkFrom(const ByteTrie& trie, int32_t begin, int32_t end, uint32_t prefixes);
  void SetTokens(const ByteTrie& trie, int32_t first, int32_t last, uint32_t prefixes);
  void ClearTokens(const ByteTrie& trie, int32_t first, int32_t last);
  bool Open(std::vector<Rows::Table*>* path, int32_t depth, int32_t row);
  bool GroupByRow(const ByteTrie::Node& node, std::span<const Start> starts);
  bool ChangeNode(const ByteTrie& trie, int32_t* node);

  Rows& rows_;
  Mask& mask_;
  std::vector<Rows::Table*> path_;  // tables of the rows along the path to a node, by depth
  std::vector<Rows::Table*> from_;
  std::vector<Rows::Table*> tables_;  // of the starts
  std::vector<Start> groups_;         // after one byte
};

}  // namespace thalweg::grammar
