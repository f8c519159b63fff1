// What the scheduler must know of a model on a rank.
#pragma once

#include "model/model.h"
#include "sched/scheduler.h"

namespace thalweg::engine {

// Fills slots, rows, blocks, checkpoints, context (the smaller of the model's and what is set) and
// reach; leaves the policy alone.
void DescribeRank(model::Model& model, sched::SchedulerOptions* options);

}  // namespace thalweg::engine
