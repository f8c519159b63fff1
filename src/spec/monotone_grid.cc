#include "spec/monotone_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace thalweg::spec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Grid {
 public:
  Grid(size_t height, size_t width, std::span<const double> guesses, std::vector<double>* values)
      : height_(height), width_(width), guesses_(guesses), values_(*values) {
    TW_CHECK_EQ(values->size(), height * width);
  }

  void Fit() {
    FindFloors();
    FindCeilings();
    FillBelow();
    FillAbove();
  }

 private:
  size_t At(size_t y, size_t x) const { return y * width_ + x; }

  // The largest measurement at or before each cell; -inf of none.
  void FindFloors() {
    floor_.assign(values_.size(), -kInfinity);
    for (size_t y = 0; y < height_; ++y) {
      for (size_t x = 0; x < width_; ++x) {
        double& f = floor_[At(y, x)];
        if (!std::isnan(values_[At(y, x)])) f = values_[At(y, x)];
        if (y > 0) f = std::max(f, floor_[At(y - 1, x)]);
        if (x > 0) f = std::max(f, floor_[At(y, x - 1)]);
      }
    }
  }

  // The smallest measurement at or behind each cell; inf of none.
  void FindCeilings() {
    ceiling_.assign(values_.size(), kInfinity);
    for (size_t y = height_; y-- > 0;) {
      for (size_t x = width_; x-- > 0;) {
        double& c = ceiling_[At(y, x)];
        if (!std::isnan(values_[At(y, x)])) c = values_[At(y, x)];
        if (y + 1 < height_) c = std::min(c, ceiling_[At(y + 1, x)]);
        if (x + 1 < width_) c = std::min(c, ceiling_[At(y, x + 1)]);
      }
    }
  }

  // Of a cell between measurements. Where those are out of order the middle decides.
  double Inner(size_t at) const {
    const double low = floor_[at], high = ceiling_[at];
    const bool guessed = !guesses_.empty() && !std::isnan(guesses_[at]) && low < high;
    return guessed ? std::clamp(guesses_[at], low, high) : low + (high - low) / 2;
  }

  // Cells with a measurement behind them, last ones first: the middle, or the smaller of the
  // neighbours behind.
  void FillBelow() {
    for (size_t y = height_; y-- > 0;) {
      for (size_t x = width_; x-- > 0;) {
        const size_t at = At(y, x);
        values_[at] = kInfinity;
        if (ceiling_[at] == kInfinity) continue;
        if (floor_[at] > -kInfinity) {
          values_[at] = Inner(at);
          continue;
        }
        if (y + 1 < height_) values_[at] = std::min(values_[at], values_[At(y + 1, x)]);
        if (x + 1 < width_) values_[at] = std::min(values_[at], values_[At(y, x + 1)]);
      }
    }
  }

  // The others, which have none behind them: the larger of the neighbours before.
  void FillAbove() {
    for (size_t y = 0; y < height_; ++y) {
      for (size_t x = 0; x < width_; ++x) {
        const size_t at = At(y, x);
        if (ceiling_[at] < kInfinity) continue;
        values_[at] = 0;
        if (y > 0) values_[at] = std::max(values_[at], values_[At(y - 1, x)]);
        if (x > 0) values_[at] = std::max(values_[at], values_[At(y, x - 1)]);
      }
    }
  }

  size_t height_;
  size_t width_;
  std::span<const double> guesses_;
  std::vector<double>& values_;
  std::vector<double> floor_ = {};
  std::vector<double> ceiling_ = {};
};

}  // namespace

void MakeMonotone(size_t height, size_t width, std::vector<double>* values,
                  std::span<const double> guesses) {
  Grid(height, width, guesses, values).Fit();
  // Guesses may disagree with each other, never with measurements.
  if (!guesses.empty()) Grid(height, width, {}, values).Fit();
}

}  // namespace thalweg::spec
