#include "spec/verification.h"

#include <algorithm>

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

}  // namespace

Budget ChooseBudget(const CostTable& costs, const StepLoad& load,
                    std::span<const double> survivals) {
  TW_CHECK_GE(load.sequences + load.other_samples, 1);
  std::vector<double> sorted(survivals.begin(), survivals.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const int64_t rows = load.sequences + load.other_rows;
  const auto sampling = static_cast<double>(load.sequences + load.other_samples);
  const double drafting = costs.DraftSeconds(load.drafting);
  const double plain = costs.StepSeconds(load.sequences, rows);
  Budget best = {.tokens = sampling, .seconds = drafting + plain, .plain_rate = sampling / plain};
  const auto most = std::min(static_cast<int64_t>(sorted.size()), load.max_drafts);
  double tokens = sampling;
  for (int64_t k = 1; k <= most; ++k) {
    tokens += sorted[static_cast<size_t>(k - 1)];
    const double seconds = drafting + costs.StepSeconds(load.sequences, rows + k);
    if (tokens / seconds <= best.rate()) continue;
    best.drafts = k;
    best.tokens = tokens;
    best.seconds = seconds;
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
