#include "spec/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "spec/confidence.h"
#include "spec/limits.h"

namespace thalweg::spec {
namespace {

// Grid points 2^(i / 8) from 2^-4 to 2^4, those nearest to 1 first.
std::vector<double> Grid() {
  std::vector<double> grid = {1};
  for (int i = 1; i <= 32; ++i) {
    grid.push_back(std::exp2(i / 8.0));
    grid.push_back(std::exp2(-i / 8.0));
  }
  return grid;
}

// Where a fit of one slot stands: the blocks that count, with the survival before the slot.
struct SlotTrial {
  float raw = 0;
  double before = 1;
  bool survived = false;
};

std::vector<SlotTrial> TrialsOf(std::span<const VerifiedBlock> blocks, size_t slot,
                                std::span<const double> temperatures) {
  std::vector<SlotTrial> trials;
  std::vector<double> survival(slot);
  for (const VerifiedBlock& b : blocks) {
    if (b.verified <= static_cast<int64_t>(slot) || b.raw.size() <= slot) continue;
    Survivals(std::span(b.raw).first(slot), temperatures, {}, survival);
    trials.push_back({.raw = b.raw[slot],
                      .before = slot == 0 ? 1 : survival.back(),
                      .survived = b.accepted > static_cast<int64_t>(slot)});
  }
  return trials;
}

// Bins with few blocks in them measure chance: fewer bins for fewer blocks.
size_t BinsFor(size_t blocks) {
  constexpr size_t kBlocksOfABin = 100;
  return std::clamp<size_t>(blocks / kBlocksOfABin, 3, kCalibrationBins);
}

double ErrorAt(std::span<const SlotTrial> trials, double temperature,
               std::vector<Prediction>* predictions) {
  predictions->clear();
  for (const SlotTrial& t : trials)
    predictions->push_back({t.before * Confidence(t.raw, temperature, 0), t.survived});
  return CalibrationError(*predictions, BinsFor(trials.size()));
}

}  // namespace

std::vector<Prediction> SurvivalPredictions(std::span<const VerifiedBlock> blocks, size_t slot,
                                            std::span<const double> temperatures) {
  const double own = slot < temperatures.size() ? temperatures[slot] : 1;
  std::vector<Prediction> predictions;
  ErrorAt(TrialsOf(blocks, slot, temperatures), own, &predictions);
  return predictions;
}

Calibration FitCalibration(std::span<const VerifiedBlock> blocks, size_t slots, std::string model) {
  Calibration made = {.model = std::move(model), .blocks = static_cast<int64_t>(blocks.size())};
  std::vector<Prediction> scratch;
  for (size_t slot = 0; slot < slots; ++slot) {
    const std::vector<SlotTrial> trials = TrialsOf(blocks, slot, made.temperatures);
    const std::vector<Prediction> before = SurvivalPredictions(blocks, slot, {});
    made.error_before.push_back(CalibrationError(before, BinsFor(before.size())));
    double best = 1;
    double least = ErrorAt(trials, 1, &scratch);
    if (static_cast<int64_t>(trials.size()) >= kLeastFitBlocks) {
      for (const double t : Grid()) {
        const double error = ErrorAt(trials, t, &scratch);
        if (error < least) least = error, best = t;
      }
    }
    made.temperatures.push_back(best);
    made.error_after.push_back(least);
  }
  return made;
}

Status CheckCalibrationOf(const Calibration& calibration, std::string_view model, size_t slots) {
  if (calibration.model != model) {
    return base::FailedPrecondition(
        fmt::format("the calibration belongs to model {}, not {}: run thalweg calibrate",
                    calibration.model, model));
  }
  if (calibration.temperatures.size() == slots) return {};
  return base::FailedPrecondition(
      fmt::format("the calibration is for blocks of {} drafts, not {}: run thalweg calibrate",
                  calibration.temperatures.size(), slots));
}

}  // namespace thalweg::spec
