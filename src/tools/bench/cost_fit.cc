#include "tools/bench/cost_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace thalweg::tools::bench {
namespace {

template <size_t N>
using Equations = std::array<std::array<double, N + 1>, N>;

// Gauss with pivots; unknowns that nothing determines are 0.
template <size_t N>
std::array<double, N> Solve(Equations<N> m) {
  for (size_t c = 0; c < N; ++c) {
    size_t pivot = c;
    for (size_t r = c + 1; r < N; ++r) {
      if (std::abs(m[r][c]) > std::abs(m[pivot][c])) pivot = r;
    }
    std::swap(m[c], m[pivot]);
    if (std::abs(m[c][c]) < 1e-12) continue;
    for (size_t r = 0; r < N; ++r) {
      if (r == c) continue;
      const double factor = m[r][c] / m[c][c];
      for (size_t k = c; k <= N; ++k) m[r][k] -= factor * m[c][k];
    }
  }
  std::array<double, N> x = {};
  for (size_t c = 0; c < N; ++c) x[c] = std::abs(m[c][c]) < 1e-12 ? 0 : m[c][N] / m[c][c];
  return x;
}

// Least squares of relative errors over the unknowns in `used`; the others are 0.
std::array<double, 3> FitUsed(const std::vector<FitSample>& samples,
                              const std::array<bool, 3>& used) {
  Equations<3> m = {};
  for (size_t i = 0; i < 3; ++i) m[i][i] = used[i] ? 1e-9 : 1;
  for (const auto& [x, y] : samples) {
    for (size_t i = 0; i < 3; ++i) {
      if (!used[i]) continue;
      for (size_t j = 0; j < 3; ++j) m[i][j] += used[j] ? x[i] * x[j] / (y * y) : 0;
      m[i][3] += x[i] / y;
    }
  }
  return Solve<3>(m);
}

double ErrorOf(const std::vector<FitSample>& samples, const std::array<double, 3>& fit) {
  double sum = 0;
  for (const auto& [x, y] : samples)
    sum += std::pow((x[0] * fit[0] + x[1] * fit[1] + x[2] * fit[2]) / y - 1, 2);
  return sum;
}

}  // namespace

std::array<double, 3> FitPositive(const std::vector<FitSample>& samples) {
  std::array<double, 3> best = {};
  double least = INFINITY;
  for (unsigned choice = 1; choice < 8; ++choice) {
    const std::array<bool, 3> used = {(choice & 1) != 0, (choice & 2) != 0, (choice & 4) != 0};
    const std::array<double, 3> fit = FitUsed(samples, used);
    const bool positive = std::all_of(fit.begin(), fit.end(), [](double c) { return c >= 0; });
    const double error = ErrorOf(samples, fit);
    if (positive && error < least) least = error, best = fit;
  }
  return best;
}

ExpertFit FitExperts(const std::vector<ExpertSample>& samples) {
  std::vector<FitSample> all;
  for (const ExpertSample& s : samples) {
    if (s.us > 0) all.push_back({{1, s.touched, s.entries}, s.us});
  }
  const std::array<double, 3> fit = FitPositive(all);
  return {fit[0], fit[1], fit[2]};
}

}  // namespace thalweg::tools::bench
