#include "spec/smoothing.h"

#include <algorithm>

#include "base/check.h"
#include "spec/confidence.h"

namespace thalweg::spec {

ConfidenceShift::ConfidenceShift(size_t slots) : slots_(slots), shifts_(slots, 0.0) {}

void ConfidenceShift::Observe(std::span<const double> confidences, int64_t verified,
                              int64_t accepted) {
  TW_CHECK_LE(accepted, verified);
  TW_CHECK_LE(verified, static_cast<int64_t>(confidences.size()));
  const int64_t reached = std::min({accepted + 1, verified, static_cast<int64_t>(slots_.size())});
  for (int64_t k = 0; k < reached; ++k) {
    Slot& s = slots_[static_cast<size_t>(k)];
    s.weight = s.weight * kObservationDecay + 1;
    s.predicted = s.predicted * kObservationDecay + confidences[static_cast<size_t>(k)];
    s.happened = s.happened * kObservationDecay + (k < accepted ? 1 : 0);
    Update(static_cast<size_t>(k));
  }
}

void ConfidenceShift::Update(size_t slot) {
  const Slot& s = slots_[slot];
  const double predicted = s.predicted / s.weight;
  const double happened =
      (s.happened + kPriorObservations * predicted) / (s.weight + kPriorObservations);
  shifts_[slot] = std::clamp(Logit(happened) - Logit(predicted), -kMostShift, kMostShift);
}

}  // namespace thalweg::spec
