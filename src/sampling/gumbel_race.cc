#include "sampling/gumbel_race.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sampling/noise.h"

namespace thalweg::sampling {

double NoiseBound(uint32_t word) {
  // With v = 1 - u: -log(1 - v) >= v, so noise <= -log(v); and log2 of a float is at least its bits
  // read as a number of exponent and fraction. The last term is more than all rounding here.
  const float cells = static_cast<float>(~word) + 0.5f;  // v * 2^32
  const auto bits = static_cast<double>(std::bit_cast<uint32_t>(cells));
  return 0.6931471805599453 * (32 + 127 - bits * 0x1p-23) + 1e-5;
}

GumbelRace::GumbelRace(const step::SamplingParams& params, int64_t position, Entry first)
    : seed_(params.seed),
      position_(position),
      temperature_(params.temperature),
      inverse_(1 / params.temperature) {
  const double noise = GumbelNoise(seed_, position_, NoisePurpose::kTarget, first.token);
  Lead(first.token, static_cast<double>(first.logit) / temperature_ + noise);
}

void GumbelRace::Lead(int32_t token, double value) {
  winner_ = token;
  best_ = value;
  // Products with the inverse differ from quotients by a few units in the last place.
  bar_ = best_ - (1e-6 + 1e-12 * std::abs(best_));
  const double cut = (bar_ - kMostNoise) * temperature_;
  cut_ = cut - 1e-12 * std::abs(cut);
}

void GumbelRace::Try(Entry entry, uint32_t word) {
  const auto logit = static_cast<double>(entry.logit);
  if (logit * inverse_ + NoiseBound(word) < bar_) return;
  const double value = logit / temperature_ + GumbelOf(word);
  if (value > best_ || (value == best_ && entry.token < winner_)) Lead(entry.token, value);
}

void GumbelRace::RunBlock(std::span<const float> logits, int32_t block) {
  const base::PhiloxCounter words = NoiseWords(seed_, position_, NoisePurpose::kTarget, block);
  for (size_t i = 0; i < logits.size(); ++i)
    Try({.logit = logits[i], .token = 4 * block + static_cast<int32_t>(i)}, words[i]);
}

void GumbelRace::Run(std::span<const float> logits) {
  int32_t block = 0;
  for (; logits.size() >= 4; logits = logits.subspan(4), ++block) {
    const float top = std::max(std::max(logits[0], logits[1]), std::max(logits[2], logits[3]));
    if (static_cast<double>(top) >= cut_) RunBlock(logits.first(4), block);
  }
  RunBlock(logits, block);
}

void GumbelRace::Run(std::span<const Entry> entries) {
  for (const Entry& e : entries) {
    if (static_cast<double>(e.logit) < cut_) continue;
    const auto lane = static_cast<size_t>(e.token) % 4;
    Try(e, NoiseWords(seed_, position_, NoisePurpose::kTarget, e.token / 4)[lane]);
  }
}

}  // namespace thalweg::sampling
