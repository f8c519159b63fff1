#include "spec/quality.h"

#include <algorithm>
#include <cmath>

namespace thalweg::spec {

double CalibrationError(std::span<const Prediction> predictions, size_t bins) {
  if (predictions.empty()) return 0;
  std::vector<double> excess(bins, 0.0);  // predicted less happened
  for (const Prediction& p : predictions) {
    const double place = p.probability * static_cast<double>(bins);
    const size_t bin = std::min(static_cast<size_t>(place), bins - 1);
    excess[bin] += p.probability - (p.happened ? 1 : 0);
  }
  double sum = 0;
  for (const double e : excess) sum += std::abs(e);
  return sum / static_cast<double>(predictions.size());
}

double BrierScore(std::span<const Prediction> predictions) {
  if (predictions.empty()) return 0;
  double sum = 0;
  for (const Prediction& p : predictions) {
    const double error = p.probability - (p.happened ? 1 : 0);
    sum += error * error;
  }
  return sum / static_cast<double>(predictions.size());
}

double AreaUnderCurve(std::vector<Prediction> predictions) {
  std::sort(predictions.begin(), predictions.end(),
            [](const Prediction& a, const Prediction& b) { return a.probability < b.probability; });
  double wins = 0, happened = 0, failed = 0;
  for (size_t i = 0; i < predictions.size();) {
    double yes = 0, no = 0;  // of equal probability
    const double value = predictions[i].probability;
    for (; i < predictions.size() && predictions[i].probability == value; ++i)
      (predictions[i].happened ? yes : no) += 1;
    wins += yes * (failed + no / 2);
    happened += yes;
    failed += no;
  }
  const double pairs = happened * failed;
  return pairs == 0 ? 0.5 : wins / pairs;
}

}  // namespace thalweg::spec
