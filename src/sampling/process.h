// What is done to the logits of a row before the temperature: bias, masks, bad words, penalties,
// the custom processor (docs/sampling.md).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sampling/sampler.h"
#include "sampling/sequence_state.h"

namespace thalweg::sampling {

// In order, in place. kept: scratch. What the processor answers. A token that the row's mask
// forbids is -inf afterwards, whatever the processor did.
Status ProcessLogits(const Row& row, std::vector<float>* kept);

// The parameters that exclude tokens, for the error when none is left.
std::string ExcludingParameters(const Row& row);

// Whether the tokens before the next one begin `word` so that its last token would complete it.
bool Completes(std::span<const int32_t> history, std::span<const int32_t> word);

}  // namespace thalweg::sampling
