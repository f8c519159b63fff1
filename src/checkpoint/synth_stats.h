// How the values of a tensor are distributed: the published statistics of the released weights
// (spec/model.md 7), and plausible ones where none are published.
#pragma once

#include <string_view>

#include "checkpoint/expected.h"

namespace thalweg::checkpoint {

struct Distribution {
  double mean = 0;
  double deviation = 0;
};

// Of a tensor of the expected list. A scale tensor gets the distribution of the weight it scales.
Distribution DistributionOf(const ExpectedTensor& tensor);

// The columns of the matrix that a quantised weight or its scale stands for.
int64_t LogicalColumns(const ExpectedTensor& tensor);

}  // namespace thalweg::checkpoint
