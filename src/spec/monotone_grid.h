// Measurements on a grid, made monotone in both directions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace thalweg::spec {

// values: [height, width], NaN where nothing was measured; at least one number. Every cell gets a
// number, never below its left or upper neighbour. Measured cells get the middle between the
// largest measurement that should not exceed them and the smallest that they should not exceed: of
// all monotone tables none has a smaller largest change. Monotone measurements stay as they are.
// guesses: [height, width] or empty; what to put where nothing was measured, as far as the
// measurements before and behind allow. NaN, and empty: the middle between them.
void MakeMonotone(size_t height, size_t width, std::vector<double>* values,
                  std::span<const double> guesses = {});

}  // namespace thalweg::spec
