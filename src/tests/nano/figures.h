// What the figure tests of nano check, shared by the fast (one backend, part of the data) and the
// slow (everything) runs.
#pragma once

#include <string>

#include "kernels/ops.h"

namespace thalweg::tests {

// Scores every `stride`-th held-out document and compares with the reference's per-document losses
// where published: within 0.06 a token on each, RMS at most 0.015. With stride 1 also the published
// perplexity 2.838 within 0.3 %.
void CheckHeldout(const std::string& backend, int stride,
                  kernels::Numerics numerics = kernels::Numerics::kExact);

// Teacher-forces the first `prompts` stored continuations: the same best token wherever the stored
// margin exceeds `margin` and in at least `agreement` of all steps; at least 90 % of the draft
// blocks equal up to near ties (our margin within `margin`) and 78 % token for token; at least 90 %
// of the confidences within 0.4.
void CheckReference(const std::string& backend, int prompts, double margin, double agreement);

}  // namespace thalweg::tests
