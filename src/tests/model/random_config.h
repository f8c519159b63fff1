// Small random configs of every shape that checkpoint::Validate allows, and texts for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "tests/model/draws.h"

namespace thalweg::tests {

checkpoint::Config RandomConfig(uint64_t seed);
// The fields that decide which code runs, on one line.
std::string Describe(const checkpoint::Config& config);

// Tokens and their image marks.
struct Text {
  std::vector<int32_t> ids;
  std::vector<uint8_t> image;  // [ids]

  int64_t size() const { return static_cast<int64_t>(ids.size()); }
};

// About one text in four has image spans.
Text RandomText(const checkpoint::Config& config, int64_t length, Draws* draws);

// The prompt of a seed: length and content. At most `longest` tokens.
Text RandomPrompt(const checkpoint::Config& config, uint64_t seed, int64_t longest);

}  // namespace thalweg::tests
