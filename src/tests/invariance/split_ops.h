// Backends for tests whose matrix products are split over K: the cpu backend's products of four
// quarters of the columns, summed afterwards. Some of them break the promise of invariance on
// purpose.
#pragma once

#include "kernels/ops.h"

namespace thalweg::tests {

// Quarters are always summed in ascending order: invariant.
const kernels::Ops& FixedSplitOps();
// Quarters are summed in an order that changes from call to call. It stands for partial sums that
// threads add as they arrive: a real race would be won by the same thread for long on a quiet
// machine, and the test would depend on it.
const kernels::Ops& ArrivalOrderOps();
// Few rows are split over K, many are not: the usual trick that fills a machine at small batches.
const kernels::Ops& SplitByRowsOps();

}  // namespace thalweg::tests
