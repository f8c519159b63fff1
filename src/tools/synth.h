// `thalweg synth`: a random checkpoint of any config, in the released formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iostream>

#include "base/status.h"

namespace thalweg::tools {

struct SynthOptions {
  std::filesystem::path config;  // a config.json
  std::filesystem::path out;     // must not exist, or be empty
  uint64_t seed = 0;
  uint64_t max_shard_bytes = 4ull << 30;
  std::ostream* report = &std::cout;
};

// Writes the checkpoint and says what was written. On an error nothing is left behind.
Status Synth(const SynthOptions& options);

}  // namespace thalweg::tools
