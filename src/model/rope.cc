#include "model/rope.h"

#include <algorithm>
#include <bit>
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

void Turn(int64_t position, const std::vector<float>& frequencies, float* cos, float* sin) {
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float angle = static_cast<float>(position) * frequencies[i];
    cos[i] = std::cos(angle);
    sin[i] = std::sin(angle);
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

void Angles::Learn(int64_t position, const std::vector<float>& frequencies) {
  const auto at = static_cast<size_t>(position);
  if (known_.size() <= at) {
    const size_t count = std::bit_ceil(at + 1);
    known_.resize(count, 0);
    known_cos_.resize(count * frequencies.size());
    known_sin_.resize(count * frequencies.size());
  }
  if (known_[at] != 0) return;
  known_[at] = 1;
  Turn(position, frequencies, &known_cos_[at * frequencies.size()],
       &known_sin_[at * frequencies.size()]);
}

void Angles::Set(std::span<const int64_t> positions, const std::vector<float>& frequencies) {
  if (frequencies_ != frequencies) {
    frequencies_ = frequencies;
    known_.clear();
  }
  const size_t half = frequencies.size();
  rope_dim_ = 2 * static_cast<int64_t>(half);
  cos_.resize(positions.size() * half);
  sin_.resize(cos_.size());
  for (size_t i = 0; i < positions.size(); ++i) {
    const int64_t position = positions[i];
    if (position >= kKnownPositions) {
      Turn(position, frequencies, &cos_[i * half], &sin_[i * half]);
      continue;
    }
    Learn(position, frequencies);
    const auto from = static_cast<size_t>(position) * half;
    std::copy_n(&known_cos_[from], half, &cos_[i * half]);
    std::copy_n(&known_sin_[from], half, &sin_[i * half]);
  }
}

}  // namespace thalweg::model
