// How many drafts of each sequence a step verifies, and who is drafted for: the planner's budget
// and what the confidences make of it. The host's speculation and a device's ask the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exec/speculation.h"

namespace thalweg::exec {

// A sequence of the step that is planned.
struct LengthEntry {
  uint64_t sequence = 0;
  bool decodes = false;                     // false: a prompt whose last row runs
  int64_t tokens_left = 0;                  // that may still come, those of this step included
  int32_t most = 0;                         // drafts of its block that may be verified
  int32_t room = 0;                         // of a block, if it had one
  std::span<const float> confidences = {};  // of its block: raw; empty: not known
};

struct DraftLengths {
  std::vector<int32_t> verify = {};  // drafts of each
  std::vector<uint8_t> draft = {};   // whether a block is made for each behind the step
  bool context = true;               // rows of the step join the draft module's context
};

// planner: nothing, all that may be verified is, and everybody is drafted for. other_rows: of
// prompts.
DraftLengths ChooseLengths(const DraftOptions& options, std::optional<spec::DraftPlanner>* planner,
                           uint64_t step, std::span<const LengthEntry> entries, int64_t other_rows);

// Says in the log how many steps drafted and wrote context, and how often that was tried.
void LogDrafting(const std::optional<spec::DraftPlanner>& planner);

}  // namespace thalweg::exec
