// How good predicted probabilities are: calibration error, Brier score, ranking
// (spec/decoding.md 1.4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thalweg::spec {

struct Prediction {
  double probability = 0;  // in [0, 1]
  bool happened = false;
};

// Expected calibration error over bins of equal width: the mean distance between what was predicted
// and what happened, bins weighed by their predictions. 0 of none.
inline constexpr size_t kCalibrationBins = 15;
double CalibrationError(std::span<const Prediction> predictions, size_t bins = kCalibrationBins);

// Mean squared error. 0 of none.
double BrierScore(std::span<const Prediction> predictions);

// The probability that one that happened was predicted higher than one that did not, ties by half;
// 1/2 when all went one way.
double AreaUnderCurve(std::vector<Prediction> predictions);

}  // namespace thalweg::spec
