// The store behind RegexArena: nodes in one vector, found again by hash.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/regex_arena.h"

namespace thalweg::grammar {

enum class RegexOp : uint8_t {
  kNone,
  kEmpty,
  kSet,      // a: index of the set; b: its only byte, or -1
  kLiteral,  // two bytes or more: a: offset in the text, b: length
  kConcat,   // a: first, never kConcat itself; b: the rest
  kRepeat,   // a: body, b: min, c: max or -1
  kEither,   // a: offset in the lists, b: count; two or more, none is kEither or kEmpty
  kBoth,     // as kEither, none is kBoth
  kNot,      // a
  kState,    // of an automaton: its row is filled from the start
};

struct RegexNode {
  RegexOp op = RegexOp::kNone;
  bool nullable = false;
  bool boolean = false;  // holds a kBoth or kNot: may be the empty language without being kNothing
  int8_t nothing = -1;   // whether it is the empty language: 1 yes, 0 no, -1 not known
  int32_t a = 0;
  int32_t b = 0;
  int32_t c = 0;
  int32_t classes = -1;  // index of its partition of bytes, once it is known
  int32_t row = -1;      // offset of its derivatives, one for each class, once there is one
};

// A partition of bytes is equal to another when they have the same classes in the order of their
// first bytes.
using ByteClasses = RegexArena::Classes;

struct RegexArena::State {
  State();

  RegexNode& at(RegexId id) { return nodes[static_cast<size_t>(id)]; }
  const RegexNode& at(RegexId id) const { return nodes[static_cast<size_t>(id)]; }
  std::string_view TextOf(const RegexNode& literal) const {
    return std::string_view(text).substr(static_cast<size_t>(literal.a),
                                         static_cast<size_t>(literal.b));
  }
  std::span<const RegexId> ListOf(const RegexNode& node) const {
    return std::span(lists).subspan(static_cast<size_t>(node.a), static_cast<size_t>(node.b));
  }

  // Each finds the node or makes it; no simplification beyond what the fields of RegexNode demand.
  RegexId Set(const ByteSet& set);
  RegexId Literal(std::string_view bytes);  // one byte or more
  RegexId Suffix(RegexId literal, int32_t from);
  RegexId Pair(RegexId first, RegexId rest);
  RegexId Counted(RegexId body, int64_t min, int64_t max);
  RegexId List(RegexOp op, std::span<const RegexId> items);  // sorted
  RegexId Complement(RegexId of);

  int32_t PartitionOfByte(uint8_t byte);
  int32_t PartitionOfSet(const ByteSet& set);
  int32_t PartitionLike(const ByteClasses& classes);
  void AddState(const RegexNode& state);  // a node that is never found again
  int32_t Product(int32_t first, int32_t second);
  int32_t PartitionOf(RegexId of);  // remembered in the node

  // The head of a concatenation, or the expression itself; what follows it, or kEmptyString.
  RegexId Head(RegexId of) const { return at(of).op == RegexOp::kConcat ? at(of).a : of; }
  RegexId Tail(RegexId of) const { return at(of).op == RegexOp::kConcat ? at(of).b : kEmptyString; }
  bool IsText(RegexId of) const {
    return at(of).op == RegexOp::kLiteral || (at(of).op == RegexOp::kSet && at(of).b >= 0);
  }
  uint8_t FirstByte(RegexId text_node) const {
    const RegexNode& node = at(text_node);
    return node.op == RegexOp::kSet ? static_cast<uint8_t>(node.b)
                                    : static_cast<uint8_t>(text[static_cast<size_t>(node.a)]);
  }
  void AppendText(RegexId text_node, std::string* out) const;

  // Counts steps; true once there have been too many, and from then on.
  bool Spend(int64_t steps) {
    work += steps;
    if (work > most_work) exhausted = true;
    return exhausted;
  }

  std::vector<RegexNode> nodes;
  std::vector<RegexId> lists;
  std::vector<ByteSet> sets;
  std::string text;
  std::vector<RegexId> rows;
  int64_t work = 0;
  int64_t most_work = INT64_MAX;
  bool exhausted = false;

  std::deque<ByteClasses> partitions;  // a deque: references to its elements stay

 private:
  template <typename Same>
  RegexId Find(uint32_t hash, Same same) const;
  RegexId Add(const RegexNode& node, uint32_t hash);
  RegexId FindOrAddLiteral(int32_t offset, int32_t length, std::string_view bytes);
  void Grow();
  int32_t InternPartition(const std::array<uint16_t, 256>& labels);

  std::vector<uint32_t> hashes_;  // of each node
  std::vector<RegexId> table_;    // open addressing, -1: free
  std::unordered_multimap<uint64_t, int32_t> partition_ids_;
  std::unordered_map<uint64_t, int32_t> products_;
  std::array<int32_t, 256> byte_partitions_;
};

}  // namespace thalweg::grammar
