#include "spec/confidence.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "sampling/elementary.h"

namespace thalweg::spec {

double Sigmoid(double x) {
  if (std::isnan(x)) return 0;
  const double e = sampling::ExpOfNegative(std::max(-std::abs(x), sampling::kLeastExponent));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

double Logit(double probability) {
  const double p = std::clamp(probability, 1e-6, 1 - 1e-6);
  return sampling::Log(p) - sampling::Log(1 - p);
}

double Confidence(float raw, double temperature, double shift) {
  return Sigmoid(static_cast<double>(raw) / temperature + shift);
}

void Survivals(std::span<const float> raw, std::span<const double> temperatures,
               std::span<const double> shifts, std::span<double> survival) {
  TW_CHECK_LE(raw.size(), survival.size());
  double product = 1;
  for (size_t k = 0; k < survival.size(); ++k) {
    if (k >= raw.size()) {
      survival[k] = 0;
      continue;
    }
    product *= Confidence(raw[k], k < temperatures.size() ? temperatures[k] : 1,
                          k < shifts.size() ? shifts[k] : 0);
    survival[k] = product;
  }
}

}  // namespace thalweg::spec
