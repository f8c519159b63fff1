// A text through a grammar, token by token, the mask checked at every step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/status.h"
#include "grammar/matcher.h"

namespace thalweg::tools {

bool MaskHas(const grammar::Mask& mask, int32_t token);

// Called with the nanoseconds of each mask, the acceptance of the token before
// it included.
using MaskTimer = std::function<void(uint64_t)>;

// How many of `tokens` are accepted before the first that is not. kInternal: a
// mask and the recogniser behind it do not agree about a token. Other errors:
// those of the matcher.
Result<int64_t> Feed(std::span<const int32_t> tokens, grammar::Matcher* matcher,
                     const MaskTimer& timer = {});

}  // namespace thalweg::tools
