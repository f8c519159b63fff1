#include "text/bpe_merges.h"

#include <queue>
#include <tuple>

namespace thalweg::text {
namespace {

constexpr int32_t kGone = -1;  // the symbol was joined to the one before it

// Symbols as a doubly linked list, and a heap of the pairs that may join. A heap entry is stale
// when its pair is no longer there; it is dropped when it surfaces.
class MergeList {
 public:
  MergeList(const MergeTable& merges, const std::vector<int32_t>& symbols)
      : merges_(merges), ids_(symbols) {
    const size_t n = ids_.size();
    before_.resize(n);
    after_.resize(n);
    for (size_t i = 0; i < n; ++i) {
      before_[i] = i - 1;
      after_[i] = i + 1;
    }
    for (size_t i = 0; i + 1 < n; ++i) Consider(i);
  }

  void Run() {
    while (!heap_.empty()) {
      const Candidate top = heap_.top();
      heap_.pop();
      if (ids_[top.at] == top.left && RightOf(top.at) == top.right) Join(top);
    }
  }

  void Collect(std::vector<int32_t>& symbols) const {
    symbols.clear();
    for (size_t i = 0; i < ids_.size(); i = after_[i]) symbols.push_back(ids_[i]);
  }

 private:
  struct Candidate {
    int32_t rank = 0;
    size_t at = 0;
    int32_t left = 0;
    int32_t right = 0;
    int32_t result = 0;
    bool operator>(const Candidate& other) const {
      return std::tie(rank, at) > std::tie(other.rank, other.at);
    }
  };

  int32_t RightOf(size_t at) const { return after_[at] < ids_.size() ? ids_[after_[at]] : kGone; }

  // Puts the pair that begins at `at` on the heap if it joins.
  void Consider(size_t at) {
    const int32_t right = RightOf(at);
    if (right == kGone) return;
    const MergeTable::Found found = merges_.Find(ids_[at], right);
    if (found.rank == MergeTable::kNoRank) return;
    heap_.push({found.rank, at, ids_[at], right, found.result});
  }

  void Join(const Candidate& pair) {
    const size_t gone = after_[pair.at];
    ids_[pair.at] = pair.result;
    ids_[gone] = kGone;
    after_[pair.at] = after_[gone];
    if (after_[gone] < ids_.size()) before_[after_[gone]] = pair.at;
    Consider(pair.at);
    if (pair.at > 0) Consider(before_[pair.at]);
  }

  const MergeTable& merges_;
  std::vector<int32_t> ids_;
  std::vector<size_t> before_;
  std::vector<size_t> after_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap_;
};

}  // namespace

void ApplyMerges(const MergeTable& merges, std::vector<int32_t>& symbols) {
  MergeList list(merges, symbols);
  list.Run();
  list.Collect(symbols);
}

}  // namespace thalweg::text
