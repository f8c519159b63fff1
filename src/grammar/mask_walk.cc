#include "grammar/mask_walk.h"

#include <algorithm>
#include <utility>

#include "grammar/token_bits.h"

namespace thalweg::grammar {

void MaskWalk::SetTokens(const ByteTrie& trie, int32_t first, int32_t last, uint32_t prefixes) {
  for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
    if ((prefixes >> trie.prefixes[i] & 1) != 0) SetToken(&mask_, trie.tokens[i]);
  }
}

void MaskWalk::ClearTokens(const ByteTrie& trie, int32_t first, int32_t last) {
  for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
    ClearToken(&mask_, trie.tokens[i]);
  }
}

void MaskWalk::Clear(const ByteTrie& trie) {
  ClearTokens(trie, 0, static_cast<int32_t>(trie.tokens.size()));
}

// The row is that of the node at `depth`.
bool MaskWalk::Open(std::vector<Rows::Table*>* path, int32_t depth, int32_t row) {
  Rows::Table* table = rows_.TableOf(row);
  (*path)[static_cast<size_t>(depth)] = table;
  return table != nullptr;
}

bool MaskWalk::Walk(const ByteTrie& trie, int32_t row, uint32_t prefixes) {
  path_.resize(static_cast<size_t>(trie.deepest) + 1);
  return Open(&path_, 0, row) && WalkFrom(trie, 1, trie.size(), prefixes);
}

// Nodes [begin, end) are whole subtrees; path_ holds what is above them.
bool MaskWalk::WalkFrom(const ByteTrie& trie, int32_t begin, int32_t end, uint32_t prefixes) {
  const ByteTrie::Node* const nodes = trie.nodes.data();
  for (int32_t i = begin; i < end;) {
    const ByteTrie::Node& node = nodes[i];
    if ((node.prefixes & prefixes) == 0) {
      i = node.skip;
      continue;
    }
    const int32_t row = rows_.Next(path_[static_cast<size_t>(node.depth) - 1], node.byte);
    if (row < 0) {
      if (row == Rows::kFailed) return false;
      i = node.skip;
      continue;
    }
    SetTokens(trie, node.first_token, nodes[i + 1].first_token, prefixes);
    if (node.skip > i + 1 && !Open(&path_, node.depth, row)) return false;
    ++i;
  }
  return true;
}

// The rows after the node's byte, each with the prefixes of all starts that lead to it.
bool MaskWalk::GroupByRow(const ByteTrie::Node& node, std::span<const Start> starts) {
  groups_.clear();
  for (size_t i = 0; i < starts.size(); ++i) {
    if ((node.prefixes & starts[i].prefixes) == 0) continue;
    const int32_t row = rows_.Next(tables_[i], node.byte);
    if (row == Rows::kFailed) return false;
    if (row < 0) continue;
    const auto known = std::ranges::find(groups_, row, &Start::row);
    if (known == groups_.end()) {
      groups_.push_back({row, starts[i].prefixes});
    } else {
      known->prefixes |= starts[i].prefixes;
    }
  }
  return true;
}

bool MaskWalk::WalkAll(const ByteTrie& trie, std::span<const Start> starts) {
  path_.resize(static_cast<size_t>(trie.deepest) + 1);
  tables_.resize(starts.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    tables_[i] = rows_.TableOf(starts[i].row);
    if (tables_[i] == nullptr) return false;
  }
  for (int32_t i = 1; i < trie.size();) {
    const ByteTrie::Node& node = trie.nodes[static_cast<size_t>(i)];
    if (!GroupByRow(node, starts)) return false;
    for (const Start& group : groups_) {
      SetTokens(trie, node.first_token, trie.FirstToken(i + 1), group.prefixes);
      if (node.skip == i + 1) continue;
      if (!Open(&path_, 1, group.row)) return false;
      if (!WalkFrom(trie, i + 1, node.skip, group.prefixes)) return false;
    }
    i = node.skip;
  }
  return true;
}

bool MaskWalk::Change(const ByteTrie& trie, int32_t from, int32_t to) {
  const size_t depths = static_cast<size_t>(trie.deepest) + 1;
  path_.resize(depths);
  from_.resize(depths);
  if (!Open(&path_, 0, to) || !Open(&from_, 0, from)) return false;
  for (int32_t node = 1; node < trie.size();) {
    if (!ChangeNode(trie, &node)) return false;
  }
  return true;
}

// Moves *node on: to its first child where both may continue and differ.
bool MaskWalk::ChangeNode(const ByteTrie& trie, int32_t* at) {
  const ByteTrie::Node& node = trie.nodes[static_cast<size_t>(*at)];
  const auto above = static_cast<size_t>(node.depth) - 1;
  const int32_t to = rows_.Next(path_[above], node.byte);
  const int32_t from = rows_.Next(from_[above], node.byte);
  if (to == Rows::kFailed || from == Rows::kFailed) return false;
  if (to >= 0 && from >= 0 && to != from) {
    ++*at;
    if (*at == node.skip) return true;
    return Open(&path_, node.depth, to) && Open(&from_, node.depth, from);
  }
  const int32_t begin = std::exchange(*at, node.skip);
  if (to == from) return true;
  if (to < 0) ClearTokens(trie, node.first_token, trie.FirstToken(node.skip));
  return to < 0 || WalkFrom(trie, begin, node.skip, kEveryPrefix);
}

}  // namespace thalweg::grammar
