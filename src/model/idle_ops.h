// An op table that does nothing: what a forward is run with to make its lists alone.
#pragma once

#include "kernels/ops.h"

namespace thalweg::model {

const kernels::Ops& IdleOps();

}  // namespace thalweg::model
