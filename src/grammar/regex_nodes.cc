#include "grammar/regex_nodes.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace thalweg::grammar {
namespace {

uint32_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0x7F4A7C159E3779B9u) * 0xC2B2AE3D27D4EB4Fu;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  return static_cast<uint32_t>(x >> 32);
}

uint32_t HashOf(RegexOp op, int64_t a, int64_t b, int64_t c) {
  const uint32_t low = Mix(static_cast<uint64_t>(a), static_cast<uint64_t>(op));
  return Mix(low, static_cast<uint64_t>(b) << 32 ^ static_cast<uint64_t>(c));
}

uint32_t HashOfSet(const ByteSet& set) {
  const auto& words = set.words();
  return Mix(Mix(words[0], words[1]), Mix(words[2], words[3]));
}

// Of the length and both ends, so that the suffixes of a long text cost the same each.
uint32_t HashOfText(std::string_view bytes) {
  constexpr size_t kEnd = 32;
  uint64_t hash = bytes.size();
  const auto add = [&](std::string_view part) {
    for (const char c : part) hash = hash * 0x100000001B3u ^ static_cast<uint8_t>(c);
  };
  add(bytes.substr(0, kEnd));
  if (bytes.size() > kEnd) add(bytes.substr(std::max(kEnd, bytes.size() - kEnd)));
  return Mix(hash, static_cast<uint64_t>(RegexOp::kLiteral));
}

}  // namespace

RegexArena::State::State() {
  byte_partitions_.fill(-1);
  table_.assign(256, -1);
  RegexNode nothing;
  nothing.nothing = 1;
  Add(nothing, HashOf(RegexOp::kNone, 0, 0, 0));
  RegexNode empty;
  empty.op = RegexOp::kEmpty;
  empty.nullable = true;
  Add(empty, HashOf(RegexOp::kEmpty, 0, 0, 0));
  // kAnything repeats the set that is made right after it.
  RegexNode anything;
  anything.op = RegexOp::kRepeat;
  anything.nullable = true;
  anything.a = kAnything + 1;
  anything.c = -1;
  Add(anything, HashOf(RegexOp::kRepeat, anything.a, 0, -1));
  TW_CHECK_EQ(Set(ByteSet::All()), kAnything + 1);
}

template <typename Same>
RegexId RegexArena::State::Find(uint32_t hash, Same same) const {
  const size_t mask = table_.size() - 1;
  for (size_t slot = hash & mask; table_[slot] >= 0; slot = (slot + 1) & mask) {
    const RegexId id = table_[slot];
    if (hashes_[static_cast<size_t>(id)] == hash && same(at(id))) return id;
  }
  return -1;
}

void RegexArena::State::Grow() {
  table_.assign(table_.size() * 2, -1);
  const size_t mask = table_.size() - 1;
  for (size_t id = 0; id < nodes.size(); ++id) {
    size_t slot = hashes_[id] & mask;
    while (table_[slot] >= 0) slot = (slot + 1) & mask;
    table_[slot] = static_cast<RegexId>(id);
  }
}

RegexId RegexArena::State::Add(const RegexNode& node, uint32_t hash) {
  const auto id = static_cast<RegexId>(nodes.size());
  nodes.push_back(node);
  hashes_.push_back(hash);
  if (nodes.size() * 2 > table_.size()) {
    Grow();
    return id;
  }
  const size_t mask = table_.size() - 1;
  size_t slot = hash & mask;
  while (table_[slot] >= 0) slot = (slot + 1) & mask;
  table_[slot] = id;
  return id;
}

RegexId RegexArena::State::Set(const ByteSet& set) {
  const uint32_t hash = HashOfSet(set);
  const RegexId found = Find(hash, [&](const RegexNode& node) {
    return node.op == RegexOp::kSet && sets[static_cast<size_t>(node.a)] == set;
  });
  if (found >= 0) return found;
  RegexNode node;
  node.op = RegexOp::kSet;
  node.a = static_cast<int32_t>(sets.size());
  node.b = -1;
  const auto& words = set.words();
  int bits = 0;
  for (const uint64_t word : words) bits += __builtin_popcountll(word);
  for (int w = 0; bits == 1 && w < 4; ++w) {
    if (words[static_cast<size_t>(w)] != 0) {
      node.b = w * 64 + __builtin_ctzll(words[static_cast<size_t>(w)]);
    }
  }
  sets.push_back(set);
  return Add(node, hash);
}

RegexId RegexArena::State::FindOrAddLiteral(int32_t offset, int32_t length,
                                            std::string_view bytes) {
  const uint32_t hash = HashOfText(bytes);
  const RegexId found = Find(hash, [&](const RegexNode& node) {
    return node.op == RegexOp::kLiteral && TextOf(node) == bytes;
  });
  if (found >= 0) return found;
  RegexNode node;
  node.op = RegexOp::kLiteral;
  node.a = offset;
  node.b = length;
  if (offset < 0) {
    node.a = static_cast<int32_t>(text.size());
    text.append(bytes);
  }
  return Add(node, hash);
}

RegexId RegexArena::State::Literal(std::string_view bytes) {
  if (bytes.size() == 1) {
    const auto byte = static_cast<uint8_t>(bytes[0]);
    return Set(ByteSet::Range(byte, byte));
  }
  return FindOrAddLiteral(-1, static_cast<int32_t>(bytes.size()), bytes);
}

RegexId RegexArena::State::Suffix(RegexId literal, int32_t from) {
  const RegexNode node = at(literal);
  if (node.op == RegexOp::kSet || from == node.b) return kEmptyString;
  if (from == 0) return literal;
  const std::string_view rest = TextOf(node).substr(static_cast<size_t>(from));
  if (rest.size() == 1) return Literal(rest);
  return FindOrAddLiteral(node.a + from, node.b - from, rest);
}

void RegexArena::State::AppendText(RegexId text_node, std::string* out) const {
  const RegexNode& node = at(text_node);
  if (node.op == RegexOp::kSet) {
    out->push_back(static_cast<char>(node.b));
  } else {
    out->append(TextOf(node));
  }
}

RegexId RegexArena::State::Pair(RegexId first, RegexId rest) {
  const uint32_t hash = HashOf(RegexOp::kConcat, first, rest, 0);
  const RegexId found = Find(hash, [&](const RegexNode& node) {
    return node.op == RegexOp::kConcat && node.a == first && node.b == rest;
  });
  if (found >= 0) return found;
  RegexNode node;
  node.op = RegexOp::kConcat;
  node.nullable = at(first).nullable && at(rest).nullable;
  node.boolean = at(first).boolean || at(rest).boolean;
  node.a = first;
  node.b = rest;
  return Add(node, hash);
}

RegexId RegexArena::State::Counted(RegexId body, int64_t min, int64_t max) {
  const uint32_t hash = HashOf(RegexOp::kRepeat, body, min, max);
  const RegexId found = Find(hash, [&](const RegexNode& node) {
    return node.op == RegexOp::kRepeat && node.a == body && node.b == min && node.c == max;
  });
  if (found >= 0) return found;
  RegexNode node;
  node.op = RegexOp::kRepeat;
  node.nullable = min == 0;
  node.boolean = at(body).boolean;
  node.a = body;
  node.b = static_cast<int32_t>(min);
  node.c = static_cast<int32_t>(max);
  return Add(node, hash);
}

RegexId RegexArena::State::List(RegexOp op, std::span<const RegexId> items) {
  uint32_t hash = static_cast<uint32_t>(op);
  for (const RegexId item : items) hash = Mix(hash, static_cast<uint64_t>(item));
  const RegexId found = Find(hash, [&](const RegexNode& node) {
    return node.op == op && std::ranges::equal(ListOf(node), items);
  });
  if (found >= 0) return found;
  RegexNode node;
  node.op = op;
  const auto nullable = [&](RegexId item) { return at(item).nullable; };
  const auto boolean = [&](RegexId item) { return at(item).boolean; };
  const bool both = op == RegexOp::kBoth;
  node.nullable =
      both ? std::ranges::all_of(items, nullable) : std::ranges::any_of(items, nullable);
  node.boolean = both || std::ranges::any_of(items, boolean);
  node.a = static_cast<int32_t>(lists.size());
  node.b = static_cast<int32_t>(items.size());
  lists.insert(lists.end(), items.begin(), items.end());
  return Add(node, hash);
}

RegexId RegexArena::State::Complement(RegexId of) {
  const uint32_t hash = HashOf(RegexOp::kNot, of, 0, 0);
  const RegexId found =
      Find(hash, [&](const RegexNode& node) { return node.op == RegexOp::kNot && node.a == of; });
  if (found >= 0) return found;
  RegexNode node;
  node.op = RegexOp::kNot;
  node.nullable = !at(of).nullable;
  node.boolean = true;
  node.a = of;
  return Add(node, hash);
}

void RegexArena::State::AddState(const RegexNode& state) {
  Add(state, HashOf(RegexOp::kState, static_cast<int64_t>(nodes.size()), 0, 0));
}

}  // namespace thalweg::grammar
