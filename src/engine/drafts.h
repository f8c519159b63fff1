// How an engine speculates: the lengths that options ask for, and what steps cost on this machine,
// measured once and kept in a file.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "engine/options.h"
#include "exec/speculation.h"

namespace thalweg::engine {

// $XDG_CACHE_HOME/thalweg/costs, ~/.cache/thalweg/costs without it; empty when neither is known.
std::filesystem::path CostFolder();

// Drafts of forced text that a constrained sequence has in a step, at most.
int64_t ForcedTokens(const EngineOptions& options, const model::Model& model);

// `identity` names the model and whatever changes what it computes. The model's pool is unused. A
// cost file that is damaged or cannot be written is no error: it is named in the log, and costs are
// measured anew. Errors: what a step refuses, a calibration that was named and is not this model's.
Result<exec::DraftOptions> ChooseDrafts(const EngineOptions& options, std::string_view identity,
                                        const checkpoint::Checkpoint& checkpoint,
                                        model::Model* model);

}  // namespace thalweg::engine
