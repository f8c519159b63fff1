// One step of several ranks: each has its own slots, blocks and checkpoints and runs a part of the
// plan, all in one forward (spec/decoding.md 7.1). In the whole, slots are numbered through: rank r
// has [r * slots, (r + 1) * slots). Blocks and checkpoints are numbers of the slot's own rank.
// Entries of rows lie by rank.
#pragma once

#include <cstdint>

#include "step/plan.h"

namespace thalweg::step {

// Adds a rank's plan, whose slots begin at `first_slot` of the whole. Ranks in ascending order.
// What it holds is moved out of it.
void AppendPart(StepPlan* part, int32_t first_slot, StepPlan* whole);

// The part of the rank with the slots [first_slot, first_slot + slots), in the numbers of the rank.
// Replaces *part, and keeps its memory. The number is the whole's.
void TakePart(const StepPlan& whole, int32_t first_slot, int32_t slots, StepPlan* part);

// Whether a result can be that of the plan: an entry for each of its rows, in order, with as many
// tokens as it may have. For results that came from elsewhere.
Status CheckResult(const StepPlan& plan, const StepResult& result);

// Adds the result of a part, in the numbers of the rank, to that of the whole. A step that failed
// on this rank alone fails its entries. The longest time stands for all. `part` is what CheckResult
// lets pass.
void AppendPartResult(const StepPlan& plan, StepResult part, int32_t first_slot, StepResult* whole);

}  // namespace thalweg::step
