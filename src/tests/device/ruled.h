// Sequences under a rule that is no grammar: which tokens may come depends on how many have. Masks
// are made where they are asked for.
#pragma once

#include <memory>

#include "exec/executor.h"
#include "exec/model_executor.h"

namespace thalweg::tests {

// Binds every third sequence to the rule; some of them end when it is fulfilled.
std::unique_ptr<exec::Executor> Ruled(std::unique_ptr<exec::ModelExecutor> executor);

}  // namespace thalweg::tests
