#include "sampling/nucleus.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <vector>

#include "sampling/elementary.h"

namespace thalweg::sampling {
namespace {

// Distances from the best, in units of the temperature, fall into buckets of 1 / 16; what has any
// mass is less than 32 away.
constexpr size_t kBuckets = 512;
constexpr float kBucketsPerUnit = 16;
constexpr size_t kBatch = 64;

// The last of the shortest best-first prefix of `border` whose mass reaches `need`: halves it again
// and again, which is linear on average.
Entry LastNeeded(std::span<Weighed> border, double need) {
  const auto better = [](const Weighed& a, const Weighed& b) { return Better(a.entry, b.entry); };
  while (border.size() > 1) {
    const size_t half = border.size() / 2;
    std::nth_element(border.begin(), border.begin() + static_cast<std::ptrdiff_t>(half),
                     border.end(), better);
    double mass = 0;
    for (const Weighed& w : border.first(half)) mass += w.mass;
    border = mass >= need ? border.first(half) : border.subspan(half);
    if (mass < need) need -= mass;
  }
  return border[0].entry;
}

class Nucleus {
 public:
  Nucleus(std::span<const float> values, std::span<const Entry> tokens, float best, float lowest,
          double temperature, std::vector<Weighed>* border)
      : values_(values),
        tokens_(tokens),
        best_(best),
        lowest_(lowest),
        inverse_(static_cast<float>(1 / temperature)),
        unit_(std::ldexp(1.0, static_cast<int>(std::bit_width(values.size())) - 53)),
        border_(*border) {}

  Entry Last(double top_p) {
    for (size_t i = 0; i < values_.size(); i += kBatch) Weigh(i);
    for (size_t b = 0; b < kBuckets; ++b) buckets_[b] += others_[b];
    double total = 0;
    for (const double m : buckets_) total += m;
    double need = std::ceil(top_p * total / unit_) * unit_;
    need = std::max(need, unit_);
    size_t border = 0;
    while (border + 1 < kBuckets && buckets_[border] < need) need -= buckets_[border++];
    return LastOf(border, need);
  }

 private:
  struct Batch {
    std::array<float, kBatch> below;  // distances from the best, 0 or less
    std::array<int32_t, kBatch> bucket;
  };

  // Distances and buckets of the values from `begin`; what is behind the last value is far. A loop
  // for each thing: the compiler makes vectors of loops without branches.
  void Measure(size_t begin, size_t count, Batch* batch) const {
    const float* value = values_.data() + begin;
    const float best = best_;
    const float inverse = inverse_;
    if (count < kBatch) batch->below.fill(kLeastSingleExponent);
    for (size_t i = 0; i < count; ++i) batch->below[i] = (value[i] - best) * inverse;
    for (float& b : batch->below) b = b > kLeastSingleExponent ? b : kLeastSingleExponent;
    for (size_t i = 0; lowest_ > -FLT_MAX && i < count; ++i) {
      if (value[i] < lowest_) batch->below[i] = kLeastSingleExponent;
    }
    for (size_t i = 0; i < kBatch; ++i) {
      const float place = batch->below[i] * -kBucketsPerUnit;
      batch->bucket[i] = static_cast<int32_t>(place < kBuckets - 1 ? place : kBuckets - 1);
    }
  }

  // To a multiple of the unit.
  double Round(float weight) const {
    const double shift = 0x1.8p52 * unit_;
    return (static_cast<double>(weight) + shift) - shift;
  }

  void Weigh(size_t begin) {
    Batch batch;
    Measure(begin, std::min(kBatch, values_.size() - begin), &batch);
    for (float& b : batch.below) b = ExpOfNegativeSingle(b);
    std::array<double, kBatch> mass;
    const double shift = 0x1.8p52 * unit_;
    for (size_t i = 0; i < kBatch; ++i)
      mass[i] = (static_cast<double>(batch.below[i]) + shift) - shift;
    // Neighbours often fall into one bucket; two sets of sums need not wait for each other.
    for (size_t i = 0; i < kBatch; i += 2) {
      buckets_[static_cast<size_t>(batch.bucket[i])] += mass[i];
      others_[static_cast<size_t>(batch.bucket[i + 1])] += mass[i + 1];
    }
  }

  // The values of one bucket alone.
  Entry LastOf(size_t bucket, double need) {
    border_.clear();
    for (size_t begin = 0; begin < values_.size(); begin += kBatch)
      TakeBucket(static_cast<int32_t>(bucket), begin);
    return LastNeeded(border_, need);
  }

  void TakeBucket(int32_t bucket, size_t begin) {
    const size_t count = std::min(kBatch, values_.size() - begin);
    Batch batch;
    Measure(begin, count, &batch);
    uint32_t some = 0;
    for (const int32_t b : batch.bucket) some |= b == bucket ? 1u : 0u;
    if (some == 0) return;
    for (size_t i = 0; i < count; ++i) {
      if (batch.bucket[i] != bucket) continue;
      const double mass = Round(ExpOfNegativeSingle(batch.below[i]));
      if (mass > 0) border_.push_back({EntryAt(begin + i), mass});
    }
  }

  Entry EntryAt(size_t place) const {
    if (!tokens_.empty()) return tokens_[place];
    return {.logit = values_[place], .token = static_cast<int32_t>(place)};
  }

  std::span<const float> values_;
  std::span<const Entry> tokens_;
  float best_;
  float lowest_;
  float inverse_;
  double unit_;
  std::vector<Weighed>& border_;
  std::array<double, kBuckets> buckets_ = {};
  std::array<double, kBuckets> others_ = {};
};

}  // namespace

float LowestOfMinP(float best, const step::SamplingParams& p) {
  const double floor = Log(std::max(p.min_p, DBL_MIN));
  const double inverse = 1 / p.temperature;
  const auto passes = [&](float logit) {
    return (static_cast<double>(logit) - static_cast<double>(best)) * inverse >= floor;
  };
  // The border is next to this guess; the test itself decides.
  auto lowest = static_cast<float>(std::max(best + floor * p.temperature, double{-FLT_MAX}));
  while (!passes(lowest)) lowest = std::nextafter(lowest, INFINITY);
  while (passes(std::nextafter(lowest, -INFINITY))) lowest = std::nextafter(lowest, -INFINITY);
  return lowest;
}

Entry LastOfTopP(std::span<const float> values, std::span<const Entry> tokens, float best,
                 float lowest, const step::SamplingParams& p, std::vector<Weighed>* border) {
  return Nucleus(values, tokens, best, lowest, p.temperature, border).Last(p.top_p);
}

}  // namespace thalweg::sampling
