#include "model/step_graphs.h"

#include <algorithm>
#include <bit>

#include "base/math.h"

namespace thalweg::model {
namespace {

constexpr int64_t kFewRows = 8;   // powers of two up to here
constexpr int64_t kRowStep = 16;  // then multiples
constexpr int64_t kSomeRows = 128, kWideStep = 64;
constexpr uint64_t kLeastTokens = 2048;

}  // namespace

int64_t FilledRows(int64_t rows) {
  if (rows > kSomeRows) return base::RoundUp(rows, kWideStep);
  if (rows > kFewRows) return base::RoundUp(rows, kRowStep);
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
}

int64_t FilledTokens(int64_t tokens) {
  return static_cast<int64_t>(std::max(kLeastTokens, std::bit_ceil(static_cast<uint64_t>(tokens))));
}

StepGraphs::~StepGraphs() { Clear(); }

void StepGraphs::Clear() {
  for (const auto& [key, recording] : recordings_) steps_->forget(recording);
  recordings_.clear();
}

}  // namespace thalweg::model
