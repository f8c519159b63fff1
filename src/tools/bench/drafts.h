// Decode steps with drafts on a synthetic model, whose drafts nobody would accept: what a step with
// verified rows and the drafting behind it takes, and the speed that it would mean if drafts were
// accepted as often as those of a real model (spec/decoding.md 1.8).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/model.h"
#include "tools/bench/figures.h"
#include "tools/bench/layers.h"

namespace thalweg::tools::bench {

// Tokens that a step with `width` verified drafts brings, when whole blocks of `block` bring
// `whole`: every draft is accepted as often as any other that was reached. whole in [1, 1 + block].
double TokensOfWidth(double whole, int64_t block, int64_t width);

// Steps with 1, 2, ... drafts of each sequence: "drafts N" with the speed at that acceptance. The
// sequences have room for 2 + block tokens a step; slots of the same numbers are used. On a device
// tokens are chosen, judged and drafted there, as an engine does it; widths whose rows such a step
// does not hold are left out. plain_seconds: of a step without drafts. `note` hears which width is
// the fastest, and its gain. Nothing where the model has no draft module.
Status AddDraftedDecode(model::Model& model, const std::vector<kvpool::SequenceId>& sequences,
                        const LayersBenchOptions& options, double plain_seconds,
                        const std::function<void(const std::string&)>& note,
                        std::vector<ModelFigure>* figures);
// Tokens of room that each sequence needs for it.
int64_t RoomForDrafts(const checkpoint::Config& config, int64_t steps);

}  // namespace thalweg::tools::bench
