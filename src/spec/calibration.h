// Sequential temperature scaling of confidences: fitted from verified blocks, kept as a table
// (spec/decoding.md 1.4).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/quality.h"

namespace thalweg::spec {

struct Calibration {
  std::string model = {};                 // identity of the checkpoint whose confidences these are
  int64_t blocks = 0;                     // that it was fitted from
  std::vector<double> temperatures = {};  // by slot, in [kLeastTemperature, kMostTemperature]
  std::vector<double> error_before = {};  // expected calibration error of the survival, by slot
  std::vector<double> error_after = {};
};

// A block that was verified. What stands behind an accepted end of the text was never verified.
struct VerifiedBlock {
  std::vector<float> raw = {};  // confidences, by slot
  int64_t verified = 0;         // drafts that went through the target
  int64_t accepted = 0;         // of them
};

// Predictions of slot k's survival under temperatures (missing ones: 1), from the blocks of which
// it was verified: whether drafts 0..k were all accepted.
std::vector<Prediction> SurvivalPredictions(std::span<const VerifiedBlock> blocks, size_t slot,
                                            std::span<const double> temperatures);

// Slot by slot, those before fixed: the temperature of a grid whose survival has the least
// calibration error, in fewer bins where there are few blocks; of equal ones the nearest to 1. A
// slot that was verified in fewer than kLeastFitBlocks blocks keeps 1. Blocks should have been
// chosen for verification without regard to their confidences (a fixed length), or high ones are
// all that the fit sees.
inline constexpr int64_t kLeastFitBlocks = 100;
Calibration FitCalibration(std::span<const VerifiedBlock> blocks, size_t slots, std::string model);

// The table as text, and back. kInvalidArgument: not a table of this format and version, a field
// that is missing, unknown, of another type or out of its range; `what` names it in messages.
std::string ToJson(const Calibration& calibration);
Result<Calibration> ParseCalibration(std::string_view text, std::string_view what);
// kFailedPrecondition: it belongs to another model or another length of block.
Status CheckCalibrationOf(const Calibration& calibration, std::string_view model, size_t slots);

}  // namespace thalweg::spec
