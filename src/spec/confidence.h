// How likely drafts are to be accepted: the confidence head's numbers made into probabilities
// (spec/decoding.md 1.4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thalweg::spec {

// 1 / (1 + e^-x): the same bits on every machine. NaN counts as certain failure.
double Sigmoid(double x);

// The logit of a probability kept within [1e-6, 1 - 1e-6].
double Logit(double probability);

// Probability that slot k's draft is accepted when those before it are: a raw confidence at the
// temperature of its slot, with what was learned since added to the logit.
double Confidence(float raw, double temperature, double shift);

// survival[k]: the probability that drafts 0..k are all accepted; never rises with k. temperatures
// and shifts are by slot; missing ones are 1 and 0.
void Survivals(std::span<const float> raw, std::span<const double> temperatures,
               std::span<const double> shifts, std::span<double> survival);

}  // namespace thalweg::spec
