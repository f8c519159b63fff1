#include <algorithm>
#include <array>

#include "spec/cost_table.h"

namespace thalweg::spec {
namespace {

template <typename Time>
Result<double> Median(const Time& time) {
  std::array<double, kMeasurements> seconds = {};
  for (double& s : seconds) {
    TW_ASSIGN(s, time());
  }
  std::nth_element(seconds.begin(), seconds.begin() + kMeasurements / 2, seconds.end());
  return seconds[kMeasurements / 2];
}

}  // namespace

std::vector<CostPoint> StepsToMeasure(int64_t max_sequences, int64_t max_rows, int64_t drafts) {
  std::vector<CostPoint> points;
  const int64_t most = std::min(max_sequences, max_rows);
  for (int64_t n = 1; n <= most; n = n < most && 2 * n > most ? most : 2 * n) {
    const int64_t width = std::min(1 + drafts, max_rows / n);
    for (int64_t w = 1; w <= width; ++w) points.push_back({.sequences = n, .rows = n * w});
    if (n * width < max_rows) points.push_back({.sequences = n, .rows = max_rows});
  }
  return points;
}

Result<CostProfile> MeasureCosts(int64_t max_sequences, int64_t max_rows, int64_t drafts,
                                 const CostTimer& timer) {
  CostProfile profile;
  for (CostPoint point : StepsToMeasure(max_sequences, max_rows, drafts)) {
    TW_ASSIGN(point.seconds, Median([&] { return timer.step(point); }));
    profile.steps.push_back(point);
    const bool drafted =
        !profile.drafts.empty() && profile.drafts.back().sequences == point.sequences;
    if (drafted) continue;
    TW_ASSIGN(const double seconds, Median([&] { return timer.draft(point.sequences); }));
    profile.drafts.push_back({.sequences = point.sequences, .seconds = seconds});
  }
  const Status status = CheckProfile(profile);
  if (!status.ok()) return base::Internal("step costs: " + status.message());
  return profile;
}

}  // namespace thalweg::spec
