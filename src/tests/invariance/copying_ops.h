// A backend for tests whose packed layout is a copy of the stored one, and which multiplies from
// the copy alone.
#pragma once

#include "kernels/ops.h"

namespace thalweg::tests {

// The reference backend that reads every matrix from Matrix::packed.
const kernels::Ops& CopyingOps();

}  // namespace thalweg::tests
