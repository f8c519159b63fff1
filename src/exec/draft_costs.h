// What steps and draft blocks cost on this rank, measured before it serves (spec/decoding.md 1.5).
#pragma once

#include <cstdint>

#include "base/status.h"
#include "model/model.h"
#include "spec/cost_table.h"

namespace thalweg::exec {

// spec::MeasureCosts over sequences of its own, with logits of every row that could be verified and
// the best of each found. The pool must be unused, and is left so. The profile's hardware and
// options are the caller's to fill. `variable`: lengths depend on confidences, so that a device has
// nothing to run until the host has seen those of the drafts before. Errors: what Model::Step
// refuses.
Result<spec::CostProfile> MeasureCosts(model::Model* model, int64_t drafts, bool variable = false);

}  // namespace thalweg::exec
