#include "text/bpe_search.h"

#include "base/check.h"

namespace thalweg::text {

std::optional<BpeSearch> BpeSearch::Build(std::span<const std::string> bytes,
                                          std::span<const int32_t, 256> byte_ids,
                                          const std::vector<Merge>& merges) {
  BpeSearch search;
  search.merges_ = MergeTable(merges);
  search.tokens_.resize(bytes.size());
  for (const std::string& token : bytes) {
    TW_CHECK_LE(token.size(), size_t{UINT16_MAX});
    search.lengths_.push_back(static_cast<uint16_t>(token.size()));
  }
  for (const int32_t id : byte_ids) search.tokens_[id].rank = kByteRank;
  if (!search.Derive(merges)) return std::nullopt;
  search.Index(bytes);
  return search;
}

// Finds the merge that makes each token. False when a merge comes before a part of it is made.
bool BpeSearch::Derive(const std::vector<Merge>& merges) {
  for (size_t i = 0; i < merges.size(); ++i) {
    const Merge& merge = merges[i];
    const auto rank = static_cast<int32_t>(i);
    if (merges_.Find(merge.left, merge.right).rank != rank) continue;  // repeated further on
    if (tokens_[merge.left].rank == kUnreached || tokens_[merge.right].rank == kUnreached) continue;
    if (tokens_[merge.result].rank != kUnreached) continue;  // made otherwise already
    if (!Adjacent(merge.left, merge.right, rank)) continue;
    Token& made = tokens_[merge.result];
    made.rank = rank;
    made.left = merge.left;
    made.right = merge.right;
  }
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto rank = static_cast<int32_t>(i);
    if (tokens_[merges[i].left].rank > rank || tokens_[merges[i].right].rank > rank) return false;
  }
  return true;
}

void BpeSearch::Index(std::span<const std::string> bytes) {
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].rank != kUnreached) keys.emplace_back(bytes[id], static_cast<int32_t>(id));
  }
  trie_ = ByteTrie(std::move(keys));
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].rank == kUnreached) continue;
    tokens_[id].shorter = trie_.LongestProperPrefix(bytes[id]).value;
  }
}

// Whether the two tokens stay apart under the merges of rank < limit. Undoes merges from the latest
// on, always of the token that was completed last, and asks at each step whether the two that then
// touch would have joined before the merge that was undone. Of two equal ranks the left merge goes
// first; so the right one is undone first, and a join across the border goes before it.
bool BpeSearch::Adjacent(int32_t left, int32_t right, int32_t limit) const {
  while (true) {
    if (merges_.Find(left, right).rank < limit) return false;
    const Token& l = tokens_[left];
    const Token& r = tokens_[right];
    if (l.rank > r.rank) {
      limit = l.rank;
      left = l.right;
    } else {
      if (r.rank == kByteRank) return true;
      limit = r.rank + 1;
      right = r.left;
    }
  }
}

// Whether the two tokens are the encoding of their joined text.
bool BpeSearch::StayApart(int32_t left, int32_t right) const {
  if (const std::optional<bool> known = apart_.Find(left, right)) return *known;
  const bool apart = Adjacent(left, right, MergeTable::kNoRank);
  apart_.Store(left, right, apart);
  return apart;
}

void BpeSearch::Encode(std::string_view piece, std::vector<int32_t>& ids) const {
  if (piece.empty()) return;
  const ByteTrie::Hit whole = trie_.LongestPrefix(piece);
  if (whole.length == piece.size()) {
    ids.push_back(whole.value);
  } else {
    Search(piece, ids);
  }
}

void BpeSearch::Search(std::string_view piece, std::vector<int32_t>& ids) const {
  const size_t first = ids.size();
  std::vector<bool> failed(piece.size() + 1);  // no encoding goes on from this position
  size_t pos = 0;
  int32_t token = trie_.LongestPrefix(piece).value;
  while (true) {
    const size_t end = pos + lengths_[token];
    if (!failed[end] && (ids.size() == first || StayApart(ids.back(), token))) {
      ids.push_back(token);
      pos = end;
      if (pos == piece.size()) return;
      token = trie_.LongestPrefix(piece.substr(pos)).value;
    } else if (tokens_[token].shorter != ByteTrie::kNone) {
      token = tokens_[token].shorter;
    } else {
      failed[pos] = true;
      TW_CHECK_GT(ids.size(), first);  // every text has an encoding
      token = ids.back();
      ids.pop_back();
      pos -= lengths_[token];
    }
  }
}

}  // namespace thalweg::text
