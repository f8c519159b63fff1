// Coefficients of what steps cost, from measured ones.
#pragma once

#include <array>
#include <utility>
#include <vector>

namespace thalweg::tools::bench {

// y = a x0 + b x1 + c x2.
using FitSample = std::pair<std::array<double, 3>, double>;

// Least squares of the relative errors, no coefficient below 0: all choices of those that are 0 are
// tried. Every y must be above 0.
std::array<double, 3> FitPositive(const std::vector<FitSample>& samples);

// What routed experts of a layer took: fixed + each * touched + row * entries.
struct ExpertSample {
  double touched = 0;  // experts
  double entries = 0;  // rows times experts of each
  double us = 0;
};
struct ExpertFit {
  double fixed_us = 0, each_us = 0, row_us = 0;
};
ExpertFit FitExperts(const std::vector<ExpertSample>& samples);

}  // namespace thalweg::tools::bench
