#include "spec/verification.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace thalweg::spec {
namespace {

struct Slot {
  double survival = 0;
  int32_t slot = 0;
  int32_t sequence = 0;
};

bool Before(const Slot& a, const Slot& b) {
  if (a.survival != b.survival) return a.survival > b.survival;
  return a.slot != b.slot ? a.slot < b.slot : a.sequence < b.sequence;
}

// The slots that may be verified. NaN counts as no hope.
std::vector<Slot> Candidates(std::span<const double> survivals, std::span<const int32_t> most) {
  const size_t slots = survivals.size() / most.size();
  std::vector<Slot> candidates;
  for (size_t s = 0; s < most.size(); ++s) {
    double least = 1;
    for (size_t k = 0; k < std::min(slots, static_cast<size_t>(std::max(most[s], 0))); ++k) {
      const double a = survivals[s * slots + k];
      least = a < least ? a : (a >= least ? least : 0);
      candidates.push_back({.survival = least,
                            .slot = static_cast<int32_t>(k),
                            .sequence = static_cast<int32_t>(s)});
    }
  }
  return candidates;
}

// What a step would cost and bring with some drafts. Rows of prompts and the tokens at their ends
// come either way and are left out: in the rate they would hide what drafts cost behind themselves.
// What drafts cost is still what they cost on top of those rows.
class Candidate {
 public:
  Candidate(const CostTable& costs, const StepLoad& load)
      : costs_(costs),
        load_(load),
        rows_(load.sequences + load.other_rows),
        plain_tokens_(static_cast<double>(load.sequences)),
        plain_seconds_(costs.StepSeconds(load.sequences, std::max<int64_t>(load.sequences, 1))),
        beyond_(costs.DraftSeconds(load.drafting) + plain_seconds_ -
                costs.StepSeconds(load.sequences, std::max<int64_t>(rows_, 1))) {}

  Budget With(int64_t drafts, double gained) const {
    return {.drafts = drafts,
            .tokens = plain_tokens_ + gained,
            .seconds =
                beyond_ + costs_.StepSeconds(load_.sequences, std::max<int64_t>(rows_ + drafts, 1)),
            .plain_seconds = plain_seconds_,
            .plain_rate = plain_tokens_ / plain_seconds_};
  }

 private:
  const CostTable& costs_;
  const StepLoad& load_;
  int64_t rows_;
  double plain_tokens_;
  double plain_seconds_;
  double beyond_;  // drafting, less what rows of prompts cost
};

std::vector<double> BestFirst(std::span<const double> survivals) {
  std::vector<double> sorted(survivals.begin(), survivals.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  return sorted;
}

int64_t MostDrafts(const StepLoad& load, std::span<const double> survivals, int64_t wanted) {
  const auto there = static_cast<int64_t>(survivals.size());
  return std::max<int64_t>(0, std::min({there, load.max_drafts, wanted}));
}

}  // namespace

Budget BudgetOf(const CostTable& costs, const StepLoad& load, std::span<const double> survivals,
                int64_t drafts) {
  const Candidate candidate(costs, load);
  const std::vector<double> sorted = BestFirst(survivals);
  const int64_t most = MostDrafts(load, sorted, drafts);
  double gained = 0;
  for (int64_t k = 0; k < most; ++k) gained += sorted[static_cast<size_t>(k)];
  return candidate.With(most, gained);
}

Budget ChooseBudget(const CostTable& costs, const StepLoad& load,
                    std::span<const double> survivals) {
  const Candidate candidate(costs, load);
  const std::vector<double> sorted = BestFirst(survivals);
  const int64_t most = MostDrafts(load, sorted, load.max_drafts);
  Budget best = candidate.With(0, 0);
  double gained = 0;
  for (int64_t k = 1; k <= most; ++k) {
    gained += sorted[static_cast<size_t>(k - 1)];
    const Budget budget = candidate.With(k, gained);
    if (budget.rate() > best.rate()) best = budget;
  }
  return best;
}

void Allocate(std::span<const double> survivals, std::span<const int32_t> most, int64_t budget,
              std::span<int32_t> lengths) {
  TW_CHECK_EQ(lengths.size(), most.size());
  std::fill(lengths.begin(), lengths.end(), 0);
  if (most.empty() || budget <= 0) return;
  TW_CHECK_EQ(survivals.size() % most.size(), 0u);
  std::vector<Slot> candidates = Candidates(survivals, most);
  if (static_cast<size_t>(budget) < candidates.size()) {
    const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(budget);
    std::nth_element(candidates.begin(), end, candidates.end(), Before);
    candidates.erase(end, candidates.end());
  }
  for (const Slot& c : candidates) ++lengths[static_cast<size_t>(c.sequence)];
}

}  // namespace thalweg::spec
