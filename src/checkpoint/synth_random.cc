#include "checkpoint/synth_random.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace thalweg::checkpoint {
namespace {

constexpr uint64_t kDrawsPerBlock = 8;  // four words of 32 bits

// FNV-1a, 64 bits.
uint64_t HashName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

double NormalCdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double NormalPdf(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi); }

// The lower half by Newton's method, each from its neighbour; the upper half mirrors it.
std::array<double, kQuantiles> RawQuantiles() {
  std::array<double, kQuantiles> out = {};
  double x = -3.7;
  for (size_t i = 0; i < kQuantiles / 2; ++i) {
    const double target = (static_cast<double>(i) + 0.5) / kQuantiles;
    for (int step = 0; step < 6; ++step) x -= (NormalCdf(x) - target) / NormalPdf(x);
    out[i] = x;
    out[kQuantiles - 1 - i] = -x;
  }
  return out;
}

std::array<float, kQuantiles> MakeQuantiles() {
  const std::array<double, kQuantiles> raw = RawQuantiles();
  double square = 0;
  for (const double x : raw) square += x * x;
  const double scale = 1 / std::sqrt(square / kQuantiles);
  std::array<float, kQuantiles> out = {};
  std::ranges::transform(raw, out.begin(), [&](double x) { return static_cast<float>(x * scale); });
  return out;
}

}  // namespace

ElementDraws::ElementDraws(uint64_t seed, std::string_view tensor_name)
    : key_(base::PhiloxKeyOf(seed)), name_hash_(HashName(tensor_name)) {}

void ElementDraws::Fill(uint64_t first, std::span<uint16_t> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const uint64_t element = first + done;
    const uint64_t block = element / kDrawsPerBlock;
    const base::PhiloxCounter words = base::Philox4x32(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
         static_cast<uint32_t>(name_hash_), static_cast<uint32_t>(name_hash_ >> 32)},
        key_);
    for (size_t i = element % kDrawsPerBlock; i < kDrawsPerBlock && done < out.size(); ++i) {
      out[done++] = static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2)));
    }
  }
}

const std::array<float, kQuantiles>& NormalQuantiles() {
  static const std::array<float, kQuantiles> quantiles = MakeQuantiles();
  return quantiles;
}

float LargestQuantile() { return NormalQuantiles().back(); }

}  // namespace thalweg::checkpoint
