// What serving teaches about confidences: a shift of each slot's logit that makes mean predicted
// and mean observed acceptance agree (spec/decoding.md 1.4, online smoothing).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thalweg::spec {

// Observations count less and less: half as much after about 700 more at the same slot.
inline constexpr double kObservationDecay = 1 - 1.0 / 1024;
// So many imagined observations agree with what is predicted; without news the shift is 0.
inline constexpr double kPriorObservations = 64;
inline constexpr double kMostShift = 2;  // either sign

class ConfidenceShift {
 public:
  explicit ConfidenceShift(size_t slots);

  // A verified block: confidences[k] at its temperature and without shift, of slots 0..verified-1;
  // slots up to the first that was not accepted are observed. What is learned holds for later steps
  // alone, so budgets and allocation still know nothing of the drafts they are about.
  void Observe(std::span<const double> confidences, int64_t verified, int64_t accepted);
  // By slot, for Survivals.
  std::span<const double> shifts() const { return shifts_; }

 private:
  struct Slot {
    double weight = 0, predicted = 0, happened = 0;
  };
  void Update(size_t slot);

  std::vector<Slot> slots_;
  std::vector<double> shifts_;
};

}  // namespace thalweg::spec
