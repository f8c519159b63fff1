// Measurements on a grid, made monotone in both directions.
#pragma once

#include <cstddef>
#include <vector>

namespace thalweg::spec {

// values: [height, width], NaN where nothing was measured; at least one number. Every cell gets a
// number, never below its left or upper neighbour. Measured cells get the middle between the
// largest measurement that should not exceed them and the smallest that they should not exceed: of
// all monotone tables none has a smaller largest change. Monotone measurements stay as they are.
void MakeMonotone(size_t height, size_t width, std::vector<double>* values);

}  // namespace thalweg::spec
