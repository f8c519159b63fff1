#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace thalweg::model {
namespace {

// theta^(-2p/dim), computed as the reference does: fp32 throughout.
std::vector<float> BaseFrequencies(double theta, int64_t dim) {
  std::vector<float> out;
  for (int64_t p = 0; p < dim; p += 2) {
    const float exponent = static_cast<float>(p) / static_cast<float>(dim);
    out.push_back(1.0f / std::pow(static_cast<float>(theta), exponent));
  }
  return out;
}

// The rotary pair whose wavelength makes `rotations` turns over the original context.
double PairOfRotations(double rotations, const checkpoint::Config& c) {
  const auto original = static_cast<double>(c.rope_scaling.original_max_position_embeddings);
  return static_cast<double>(c.qk_rope_head_dim) *
         std::log(original / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(c.compress_rope_theta));
}

// YaRN: slow pairs are interpolated by `factor`, fast ones kept, a linear ramp between.
void ApplyYarn(const checkpoint::Config& c, std::vector<float>* frequencies) {
  if (c.rope_scaling.original_max_position_embeddings <= 0) return;
  const double low = std::max(std::floor(PairOfRotations(c.rope_scaling.beta_fast, c)), 0.0);
  const double high = std::min(std::ceil(PairOfRotations(c.rope_scaling.beta_slow, c)),
                               static_cast<double>(c.qk_rope_head_dim - 1));
  const auto width = static_cast<float>(std::max(high - low, 0.001));
  for (size_t p = 0; p < frequencies->size(); ++p) {
    const float ramp =
        std::clamp((static_cast<float>(p) - static_cast<float>(low)) / width, 0.0f, 1.0f);
    float& f = (*frequencies)[p];
    f = f / static_cast<float>(c.rope_scaling.factor) * ramp + f * (1.0f - ramp);
  }
}

}  // namespace

RopeFrequencies MakeRopeFrequencies(const checkpoint::Config& config) {
  RopeFrequencies out;
  out.plain = BaseFrequencies(config.rope_theta, config.qk_rope_head_dim);
  out.compressed = BaseFrequencies(config.compress_rope_theta, config.qk_rope_head_dim);
  ApplyYarn(config, &out.compressed);
  return out;
}

void Angles::Set(std::span<const int64_t> positions, const std::vector<float>& frequencies) {
  rope_dim_ = 2 * static_cast<int64_t>(frequencies.size());
  cos_.resize(positions.size() * frequencies.size());
  sin_.resize(cos_.size());
  size_t at = 0;
  for (const int64_t position : positions) {
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(position) * frequency;
      cos_[at] = std::cos(angle);
      sin_[at] = std::sin(angle);
      ++at;
    }
  }
}

}  // namespace thalweg::model
