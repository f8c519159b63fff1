#include "sampling/choose.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "sampling/elementary.h"
#include "sampling/gumbel_race.h"
#include "sampling/params.h"

namespace thalweg::sampling {
namespace {

// Distances from the best (in units of the temperature) are sorted into buckets of 1 / 16.
constexpr size_t kBuckets = 1024;
constexpr double kBucketsPerUnit = 16;

// Probabilities as integers, so that sums do not depend on their order: the best token has 2^shift
// units, and the whole row fits 63 bits.
int MassShift(size_t tokens) { return 62 - static_cast<int>(std::bit_width(tokens)); }

double Below(float logit, Entry best, double inverse_temperature) {
  return (static_cast<double>(logit) - static_cast<double>(best.logit)) * inverse_temperature;
}

bool Passes(float logit, Entry best, const step::SamplingParams& p, double floor) {
  return Below(logit, best, 1 / p.temperature) >= floor;
}

// Tokens of the row within min_p of the best. A floor of -inf lets pass what is possible at all.
void TakeAll(std::span<const float> logits, Entry best, const step::SamplingParams& p, double floor,
             std::vector<Entry>* out) {
  out->clear();
  const double cut = p.min_p > 0 ? floor : -std::numeric_limits<double>::max();
  for (size_t v = 0; v < logits.size(); ++v) {
    if (Passes(logits[v], best, p, cut))
      out->push_back({.logit = logits[v], .token = static_cast<int32_t>(v)});
  }
}

// Walks masses of buckets to the one in which `need` is reached; takes what lies before from it.
size_t BorderBucket(std::span<const uint64_t> buckets, uint64_t* need) {
  size_t b = 0;
  while (b + 1 < buckets.size() && buckets[b] < *need) *need -= buckets[b++];
  return b;
}

// The last of the shortest best-first prefix of `border` whose mass reaches `need`: halves it again
// and again, which is linear on average.
Entry LastNeeded(std::span<Weighed> border, uint64_t need) {
  const auto better = [](const Weighed& a, const Weighed& b) { return Better(a.entry, b.entry); };
  while (border.size() > 1) {
    const size_t half = border.size() / 2;
    std::nth_element(border.begin(), border.begin() + static_cast<std::ptrdiff_t>(half),
                     border.end(), better);
    uint64_t mass = 0;
    for (const Weighed& w : border.first(half)) mass += w.mass;
    border = mass >= need ? border.first(half) : border.subspan(half);
    if (mass < need) need -= mass;
  }
  return border[0].entry;
}

class Nucleus {
 public:
  Nucleus(Entry best, const step::SamplingParams& p, ChooseBuffers* b)
      : best_(best), inverse_(1 / p.temperature), top_p_(p.top_p), b_(*b) {}

  void Keep() {
    Weigh();
    uint64_t total = 0;
    for (const uint64_t m : buckets_) total += m;
    auto need = static_cast<uint64_t>(top_p_ * static_cast<double>(total));
    need = std::max<uint64_t>(need, 1);
    const size_t border = BorderBucket(buckets_, &need);
    TakeBorder(border);
    const Entry last = LastNeeded(b_.border, need);
    std::erase_if(b_.candidates, [&](const Entry& e) { return Better(last, e); });
  }

 private:
  size_t BucketOf(float logit) const {
    const double place = -Below(logit, best_, inverse_) * kBucketsPerUnit;
    return place < kBuckets - 1 ? static_cast<size_t>(place) : kBuckets - 1;
  }

  void Weigh() {
    const double one = static_cast<double>(uint64_t{1} << MassShift(b_.candidates.size()));
    b_.masses.resize(b_.candidates.size());
    for (size_t i = 0; i < b_.masses.size(); ++i) {
      const double weight = ExpOfNegative(Below(b_.candidates[i].logit, best_, inverse_));
      b_.masses[i] = static_cast<uint64_t>(static_cast<int64_t>(weight * one + 0.5));
    }
    for (size_t i = 0; i < b_.masses.size(); ++i)
      buckets_[BucketOf(b_.candidates[i].logit)] += b_.masses[i];
  }

  void TakeBorder(size_t border) {
    b_.border.clear();
    for (size_t i = 0; i < b_.masses.size(); ++i) {
      if (BucketOf(b_.candidates[i].logit) == border)
        b_.border.push_back({.entry = b_.candidates[i], .mass = b_.masses[i]});
    }
  }

  Entry best_;
  double inverse_;
  double top_p_;
  ChooseBuffers& b_;
  std::array<uint64_t, kBuckets> buckets_ = {};
};

}  // namespace

void Truncate(std::span<const float> logits, Entry best, const step::SamplingParams& p,
              ChooseBuffers* buffers) {
  std::vector<Entry>& kept = buffers->candidates;
  const double floor = p.min_p > 0 ? Log(p.min_p) : 0;
  if (p.top_k > 0) {
    TakeBest(logits, p.top_k, &kept);
    if (p.min_p > 0)
      std::erase_if(kept, [&](const Entry& e) { return !Passes(e.logit, best, p, floor); });
  } else {
    TakeAll(logits, best, p, floor, &kept);
  }
  if (p.top_p < 1) Nucleus(best, p, buffers).Keep();
}

int32_t Choose(std::span<const float> logits, Entry best, const step::SamplingParams& p,
               int64_t position, ChooseBuffers* buffers) {
  if (p.temperature < kGreedyBelow || p.top_k == 1) return best.token;
  GumbelRace race(p, position, best);
  if (p.top_k <= 0 && p.top_p >= 1 && p.min_p <= 0) {
    race.Run(logits);
  } else {
    Truncate(logits, best, p, buffers);
    race.Run(buffers->candidates);
  }
  return race.winner();
}

}  // namespace thalweg::sampling
