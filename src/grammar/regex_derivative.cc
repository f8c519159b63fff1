// Derivatives, the classes of bytes that have the same one, and whether a language is empty.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "grammar/regex_arena.h"
#include "grammar/regex_nodes.h"

namespace thalweg::grammar {

int32_t RegexArena::State::InternPartition(const std::array<uint16_t, 256>& labels) {
  ByteClasses classes = {};
  std::unordered_map<uint16_t, uint8_t> names;
  uint64_t hash = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto [name, added] = names.try_emplace(labels[byte], static_cast<uint8_t>(classes.count));
    if (added)
      classes.representative[static_cast<size_t>(classes.count++)] = static_cast<uint8_t>(byte);
    classes.class_of[byte] = name->second;
    hash = (hash ^ name->second) * 0x100000001B3u;
  }
  const auto [first, last] = partition_ids_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (partitions[static_cast<size_t>(it->second)].class_of == classes.class_of) return it->second;
  }
  const auto id = static_cast<int32_t>(partitions.size());
  partitions.push_back(classes);
  partition_ids_.emplace(hash, id);
  return id;
}

int32_t RegexArena::State::PartitionOfByte(uint8_t byte) {
  int32_t& known = byte_partitions_[byte];
  if (known < 0) known = PartitionOfSet(ByteSet::Range(byte, byte));
  return known;
}

int32_t RegexArena::State::PartitionOfSet(const ByteSet& set) {
  std::array<uint16_t, 256> labels;
  for (size_t byte = 0; byte < 256; ++byte) labels[byte] = set.Has(static_cast<uint8_t>(byte));
  return InternPartition(labels);
}

int32_t RegexArena::State::PartitionLike(const ByteClasses& classes) {
  std::array<uint16_t, 256> labels;
  std::ranges::copy(classes.class_of, labels.begin());
  return InternPartition(labels);
}

int32_t RegexArena::State::Product(int32_t first, int32_t second) {
  const auto& a = partitions[static_cast<size_t>(first)];
  const auto& b = partitions[static_cast<size_t>(second)];
  if (first == second || b.count == 1) return first;
  if (a.count == 1) return second;
  const uint64_t key = static_cast<uint64_t>(first) << 32 | static_cast<uint64_t>(second);
  const auto known = products_.find(key);
  if (known != products_.end()) return known->second;
  std::array<uint16_t, 256> labels;
  for (size_t byte = 0; byte < 256; ++byte) {
    labels[byte] = static_cast<uint16_t>(a.class_of[byte] << 8 | b.class_of[byte]);
  }
  const int32_t product = InternPartition(labels);
  products_.emplace(key, product);
  return product;
}

int32_t RegexArena::State::PartitionOf(RegexId of) {
  if (at(of).classes >= 0) return at(of).classes;
  const RegexNode node = at(of);
  int32_t result = 0;
  switch (node.op) {
    case RegexOp::kState: break;  // known from the start
    case RegexOp::kNone:
    case RegexOp::kEmpty: result = PartitionOfSet(ByteSet()); break;
    case RegexOp::kSet: result = PartitionOfSet(sets[static_cast<size_t>(node.a)]); break;
    case RegexOp::kLiteral: result = PartitionOfByte(FirstByte(of)); break;
    case RegexOp::kRepeat:
    case RegexOp::kNot: result = PartitionOf(node.a); break;
    case RegexOp::kConcat: {
      result = PartitionOf(node.a);
      RegexId rest = of;
      while (at(rest).op == RegexOp::kConcat && at(at(rest).a).nullable) {
        rest = at(rest).b;
        result = Product(result, PartitionOf(Head(rest)));
      }
      break;
    }
    case RegexOp::kEither:
    case RegexOp::kBoth: {
      result = PartitionOf(ListOf(node)[0]);
      for (const RegexId item : ListOf(node)) result = Product(result, PartitionOf(item));
      break;
    }
  }
  at(of).classes = result;
  return result;
}

const RegexArena::Classes& RegexArena::ClassesOf(RegexId of) {
  return state_->partitions[static_cast<size_t>(state_->PartitionOf(of))];
}

// Where looking it up would cost as much as making it.
std::optional<RegexId> RegexArena::SimpleDerivative(RegexId of, uint8_t byte) {
  State& s = *state_;
  const RegexNode& node = s.at(of);
  const auto has = [&](const RegexNode& set) {
    return s.sets[static_cast<size_t>(set.a)].Has(byte);
  };
  switch (node.op) {
    case RegexOp::kNone:
    case RegexOp::kEmpty: return kNothing;
    case RegexOp::kSet: return has(node) ? kEmptyString : kNothing;
    case RegexOp::kLiteral: return s.FirstByte(of) == byte ? s.Suffix(of, 1) : kNothing;
    case RegexOp::kConcat: break;
    default: return std::nullopt;
  }
  const RegexNode& first = s.at(node.a);
  const RegexId rest = node.b;
  if (first.op == RegexOp::kSet) return has(first) ? rest : kNothing;
  if (first.op != RegexOp::kLiteral) return std::nullopt;
  return s.FirstByte(node.a) == byte ? s.Pair(s.Suffix(node.a, 1), rest) : kNothing;
}

RegexId RegexArena::Derivative(RegexId of, uint8_t byte) {
  if (const auto simple = SimpleDerivative(of, byte)) return *simple;
  State& s = *state_;
  const auto& classes = s.partitions[static_cast<size_t>(s.PartitionOf(of))];
  if (s.at(of).row < 0) {
    s.at(of).row = static_cast<int32_t>(s.rows.size());
    s.rows.resize(s.rows.size() + static_cast<size_t>(classes.count), -1);
  }
  const size_t cell = static_cast<size_t>(s.at(of).row) + classes.class_of[byte];
  if (s.rows[cell] >= 0) return s.rows[cell];
  if (s.Spend(1)) return kNothing;
  const RegexId result = NewDerivative(of, byte);
  if (s.exhausted) return kNothing;
  s.rows[cell] = result;
  return result;
}

RegexId RegexArena::NewDerivative(RegexId of, uint8_t byte) {
  const RegexNode node = state_->at(of);
  switch (node.op) {
    case RegexOp::kConcat: return DerivativeOfConcat(of, byte);
    case RegexOp::kNot: return Not(Derivative(node.a, byte));
    case RegexOp::kRepeat: {
      const RegexId first = Derivative(node.a, byte);
      if (first == kNothing) return kNothing;
      return Concat(first, Repeat(node.a, std::max(node.b - 1, 0), node.c < 0 ? -1 : node.c - 1));
    }
    default: return DerivativeOfList(of, byte);
  }
}

RegexId RegexArena::DerivativeOfConcat(RegexId of, uint8_t byte) {
  std::vector<RegexId> choices;
  RegexId rest = of;
  while (state_->at(rest).op == RegexOp::kConcat) {
    const RegexNode node = state_->at(rest);
    const RegexId first = Derivative(node.a, byte);
    if (first != kNothing) choices.push_back(Concat(first, node.b));
    if (!state_->at(node.a).nullable) return Either(choices);
    rest = node.b;
  }
  choices.push_back(Derivative(rest, byte));
  return Either(choices);
}

RegexId RegexArena::DerivativeOfList(RegexId of, uint8_t byte) {
  const RegexNode node = state_->at(of);
  const bool both = node.op == RegexOp::kBoth;
  TW_CHECK(both || node.op == RegexOp::kEither);
  std::vector<RegexId> parts;
  for (int32_t i = 0; i < node.b; ++i) {
    const RegexId part = Derivative(state_->ListOf(node)[static_cast<size_t>(i)], byte);
    if (part == kNothing && both) return kNothing;
    if (part != kNothing) parts.push_back(part);
  }
  return both ? Both(parts) : Either(parts);
}

std::optional<bool> RegexArena::IsNothing(RegexId of, int64_t most_states) {
  const RegexNode node = state_->at(of);
  if (of == kNothing) return true;
  if (node.nullable || !node.boolean) return false;
  if (node.nothing >= 0) return node.nothing == 1;
  std::optional<bool> result;
  if (node.op == RegexOp::kConcat || node.op == RegexOp::kRepeat) {
    result = IsNothing(node.a, most_states);
    if (result == false && node.op == RegexOp::kConcat) result = IsNothing(node.b, most_states);
  } else if (node.op == RegexOp::kEither) {
    result = NoneOfThem(of, most_states);
  } else {
    result = Explore(of, most_states);
  }
  if (result) state_->at(of).nothing = *result ? 1 : 0;
  return result;
}

std::optional<bool> RegexArena::NoneOfThem(RegexId either, int64_t most_states) {
  const RegexNode node = state_->at(either);
  std::optional<bool> result = true;
  for (int32_t i = 0; i < node.b; ++i) {
    const auto one = IsNothing(state_->ListOf(node)[static_cast<size_t>(i)], most_states);
    if (one == false) return false;
    if (!one) result = std::nullopt;
  }
  return result;
}

// Depth first: the shortest way to a match is not needed, any is enough.
std::optional<bool> RegexArena::Explore(RegexId of, int64_t most_states) {
  State& s = *state_;
  std::unordered_map<RegexId, RegexId> from = {{of, of}};
  std::vector<RegexId> open = {of};
  while (!open.empty()) {
    const RegexId at = open.back();
    open.pop_back();
    const Classes classes = ClassesOf(at);
    for (int32_t c = 0; c < classes.count; ++c) {
      const RegexId next = Derivative(at, classes.representative[static_cast<size_t>(c)]);
      if (s.exhausted) return std::nullopt;
      if (next == kNothing || s.at(next).nothing == 1) continue;
      if (s.at(next).nullable || !s.at(next).boolean || s.at(next).nothing == 0) {
        for (RegexId back = at; back != of; back = from[back]) s.at(back).nothing = 0;
        return false;
      }
      if (!from.try_emplace(next, at).second) continue;
      if (static_cast<int64_t>(from.size()) > most_states) return std::nullopt;
      open.push_back(next);
    }
  }
  for (const auto& [state, unused] : from) s.at(state).nothing = 1;
  return true;
}

}  // namespace thalweg::grammar
