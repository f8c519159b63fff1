#include "sampling/choose.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "sampling/gumbel_race.h"
#include "sampling/nucleus.h"
#include "sampling/params.h"

namespace thalweg::sampling {
namespace {

constexpr int32_t kNoToken = std::numeric_limits<int32_t>::max();

void KeepTopK(std::span<const float> logits, int64_t k, ChooseBuffers* b) {
  TakeBest(logits, k, &b->candidates);
  b->values.clear();
  for (const Entry& e : b->candidates) b->values.push_back(e.logit);
}

// The last that min_p and top_p keep of some values; tokens as in LastOfTopP.
Entry LastKept(std::span<const float> values, std::span<const Entry> tokens, Entry best,
               const step::SamplingParams& p, ChooseBuffers* b) {
  const float lowest = p.min_p > 0 ? LowestOfMinP(best.logit, p) : -FLT_MAX;
  if (p.top_p >= 1) return {.logit = lowest, .token = kNoToken};
  return LastOfTopP(values, tokens, best.logit, lowest, p, &b->border);
}

// Leaves what does not come behind `last`.
void Mask(std::span<const float> logits, Entry last, std::vector<float>* masked) {
  masked->resize(logits.size());
  float* out = masked->data();
  for (size_t v = 0; v < logits.size(); ++v) {
    const float l = logits[v];
    const bool tie = l == last.logit && static_cast<int32_t>(v) <= last.token;
    out[v] = l > last.logit || tie ? l : -INFINITY;
  }
}

bool Greedy(const step::SamplingParams& p) { return p.temperature < kGreedyBelow || p.top_k == 1; }

}  // namespace

int32_t Choose(std::span<const float> logits, Entry best, const step::SamplingParams& p,
               int64_t position, ChooseBuffers* b, NoisePurpose purpose) {
  if (Greedy(p)) return best.token;
  GumbelRace race(p, position, best, purpose);
  if (p.top_k > 0) {
    KeepTopK(logits, p.top_k, b);
    const Entry last = LastKept(b->values, b->candidates, best, p, b);
    std::erase_if(b->candidates, [&](const Entry& e) { return Better(last, e); });
    race.Run(b->candidates);
  } else if (p.top_p < 1 || p.min_p > 0) {
    Mask(logits, LastKept(logits, {}, best, p, b), &b->masked);
    race.Run(b->masked);
  } else {
    race.Run(logits);
  }
  return race.winner();
}

Entry LastChoice(std::span<const float> logits, Entry best, const step::SamplingParams& p,
                 ChooseBuffers* b) {
  if (Greedy(p)) return best;
  if (p.top_k <= 0) return LastKept(logits, {}, best, p, b);
  KeepTopK(logits, p.top_k, b);
  const Entry cut = LastKept(b->values, b->candidates, best, p, b);
  const Entry last = *std::max_element(b->candidates.begin(), b->candidates.end(), Better);
  return Better(last, cut) ? last : cut;
}

}  // namespace thalweg::sampling
