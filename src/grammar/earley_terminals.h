// Terminals of the parser: expressions as states of automata that are made when they are needed.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "base/status.h"
#include "grammar/regex_arena.h"
#include "grammar/vocabulary_trie.h"

namespace thalweg::grammar {

// Bytes by what they lead to. Numbered, and equal partitions have equal numbers.
struct Partition {
  std::array<uint8_t, 256> class_of;
  std::array<uint8_t, 256> representative;
  int32_t count;
  int32_t number;
};

// One expression whose derivatives are known.
struct Terminal {
  const Partition* partition = nullptr;
  std::vector<RegexId> next = {};  // by class; kNothing for every empty language
  ByteSet live = {};               // bytes that do not lead to kNothing
  bool nullable = false;
  std::array<int32_t, kAlphabets> uniform = {};  // index of Terminals::uniforms_, 0: not yet asked

  RegexId Next(uint8_t byte) const { return next[partition->class_of[byte]]; }
};

// What every character of an alphabet does to an expression.
struct Uniform {
  bool holds = false;       // they all lead to `next`, but for the exceptions
  RegexId next = kNothing;  // kNothing: to the end of hope
  ByteSet exceptions = {};  // of Vocabulary::Trie::exceptions
};

// Not thread-safe.
class Terminals {
 public:
  Terminals(RegexArena* arena, const Vocabulary::Trie& trie);

  // Null: the expression is beyond what can be computed, see failure(). Stable.
  const Terminal* Of(RegexId expression);
  const Uniform* UniformOf(RegexId expression, int32_t alphabet);
  // The coarsest partition that is finer than both.
  const Partition* Product(const Partition* a, const Partition* b);
  const Partition* bytes_apart() const { return bytes_apart_; }
  const Partition* all_alike() const { return all_alike_; }

  // Bounds what is computed until the next call.
  void StartWork();
  const Status& failure() const { return failure_; }
  int64_t bytes() const;

 private:
  std::unique_ptr<Terminal> Make(RegexId expression);
  const Partition* Intern(const std::array<uint8_t, 256>& labels);
  std::unique_ptr<Uniform> MakeUniform(const Terminal& terminal, int32_t alphabet);
  RegexId MostCommon(const Terminal& terminal, const ByteSet& of) const;
  bool OnlyLeadsTo(RegexId from, RegexId to, const CharacterSequence& sequence, int32_t at);

  RegexArena& arena_;
  const Vocabulary::Trie& trie_;
  std::vector<std::unique_ptr<Terminal>> terminals_;  // by expression
  std::vector<std::unique_ptr<Uniform>> uniforms_;
  std::map<std::array<uint8_t, 256>, std::unique_ptr<Partition>> partitions_;
  std::map<std::pair<int32_t, int32_t>, const Partition*> products_;
  const Partition* bytes_apart_;
  const Partition* all_alike_;
  Status failure_;
  int64_t bytes_ = 0;
  int64_t arena_bytes_;  // when this object was made
};

}  // namespace thalweg::grammar
