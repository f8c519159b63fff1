#include "sampling/gumbel_race.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>

namespace thalweg::sampling {
namespace {

// The nearest float at or below, where rounding is concerned; -inf below all of them.
float FloatBelow(double x) {
  if (x < -FLT_MAX) return -INFINITY;
  return x > FLT_MAX ? FLT_MAX : static_cast<float>(x);
}

inline float BoundOf(uint32_t word) {
  // With v = 1 - u: -log(1 - v) >= v, so noise <= -log(v); and log2 of a float is at least its bits
  // read as exponent and fraction. The last term is more than all rounding here. Signed
  // conversions, because vectors have them.
  const float cells = 2 * static_cast<float>(static_cast<int32_t>(~word >> 1)) + 0.5f;  // v * 2^32
  const auto bits = static_cast<float>(std::bit_cast<int32_t>(cells));
  return 0.69314718f * (159.0f - bits * 0x1p-23f) + 1e-4f;
}

}  // namespace

float NoiseBound(uint32_t word) { return BoundOf(word); }

GumbelRace::GumbelRace(const step::SamplingParams& params, int64_t position, Entry first,
                       NoisePurpose purpose)
    : seed_(params.seed),
      position_(position),
      purpose_(purpose),
      temperature_(params.temperature),
      inverse_(static_cast<float>(1 / params.temperature)) {
  const double noise = GumbelNoise(seed_, position_, purpose_, first.token);
  Lead(first.token, static_cast<double>(first.logit) / temperature_ + noise);
}

void GumbelRace::Lead(int32_t token, double value) {
  winner_ = token;
  best_ = value;
  // More than the rounding of single precision. A product that overflows, or a bar of -inf, only
  // lets more tokens run.
  const double bar = best_ - (1e-4 + 1e-6 * std::abs(best_));
  const double cut = (bar - kMostNoise) * temperature_;
  bar_ = FloatBelow(bar);
  cut_ = FloatBelow(cut - 1e-6 * std::abs(cut));
}

void GumbelRace::Try(Entry entry, uint32_t word) {
  if (entry.logit * inverse_ + BoundOf(word) < bar_) return;
  const double value = static_cast<double>(entry.logit) / temperature_ + GumbelOf(word);
  if (value > best_ || (value == best_ && entry.token < winner_)) Lead(entry.token, value);
}

void GumbelRace::RunBatch(std::span<const float> logits, int32_t first) {
  std::array<uint32_t, kBatch> words;
  NoiseWords(seed_, position_, purpose_, first / 4, words);
  uint32_t some = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    some |= logits[i] * inverse_ + BoundOf(words[i]) < bar_ ? 0u : 1u;
  if (some == 0) return;
  for (size_t i = 0; i < logits.size(); ++i)
    Try({.logit = logits[i], .token = first + static_cast<int32_t>(i)}, words[i]);
}

void GumbelRace::Run(std::span<const float> logits) {
  for (size_t first = 0; first < logits.size(); first += kBatch) {
    const auto batch = logits.subspan(first, std::min(kBatch, logits.size() - first));
    if (Highest(batch) >= cut_) RunBatch(batch, static_cast<int32_t>(first));
  }
}

void GumbelRace::Run(std::span<const Entry> entries) {
  for (const Entry& e : entries) {
    if (e.logit < cut_) continue;
    const auto lane = static_cast<size_t>(e.token) % 4;
    Try(e, NoiseWords(seed_, position_, purpose_, e.token / 4)[lane]);
  }
}

}  // namespace thalweg::sampling
