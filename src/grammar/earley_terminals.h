// Terminals of the parser: expressions as states of automata that are made when they are needed.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "grammar/byte_pool.h"
#include "grammar/regex_arena.h"
#include "grammar/vocabulary_trie.h"

namespace thalweg::grammar {

// Bytes by what they lead to. Numbered, and equal partitions have equal numbers.
struct Partition {
  std::array<uint8_t, 256> class_of;
  std::array<uint8_t, 256> representative;
  std::vector<ByteSet> bytes;  // of each class
  int32_t count;
  int32_t number;
};

// One expression whose derivatives are known.
struct Terminal {
  const Partition* partition = nullptr;
  std::span<RegexId> next = {};  // by class; kNothing for every empty language
  ByteSet live = {};             // bytes that do not lead to kNothing
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
  const Terminal* Of(RegexId expression) {
    const auto index = static_cast<size_t>(expression);
    if (index < terminals_.size() && terminals_[index] != nullptr) return terminals_[index];
    return Make(expression);
  }
  const Uniform* UniformOf(RegexId expression, int32_t alphabet);
  // A partition that is finer than all of these: the coarsest one when they are few.
  const Partition* Product(std::span<const Terminal* const> terminals);

  // Bounds what is computed until the next call.
  void StartWork();
  const Status& failure() const { return failure_; }
  int64_t bytes() const;

 private:
  const Terminal* Make(RegexId expression);
  bool FillNext(RegexId expression, Terminal* terminal);
  const Partition* PartitionOf(RegexId expression);
  const Partition* Intern(const std::array<uint8_t, 256>& labels);
  const Partition* Product(const Partition* a, const Partition* b);
  Uniform MakeUniform(const Terminal& terminal, int32_t alphabet);
  RegexId MostCommon(const Terminal& terminal, const ByteSet& of) const;
  bool OnlyLeadsTo(const Terminal& from, RegexId to, const CharacterSequence& sequence, int32_t at);
  bool OnlyLeadsTo(RegexId from, RegexId to, const CharacterSequence& sequence, int32_t at);

  RegexArena& arena_;
  const Vocabulary::Trie& trie_;
  BytePool pool_;
  std::vector<Terminal*> terminals_;  // by expression
  std::deque<Uniform> uniforms_;
  std::map<std::array<uint8_t, 256>, std::unique_ptr<Partition>> partitions_;
  std::unordered_map<const RegexArena::Classes*, const Partition*> of_arena_;
  std::unordered_map<uint64_t, const Partition*> products_;
  std::vector<const Partition*> factors_;
  const Partition* bytes_apart_;
  const Partition* all_alike_;
  Status failure_;
  int64_t bytes_ = 0;
  int64_t arena_bytes_;  // when this object was made
};

}  // namespace thalweg::grammar
