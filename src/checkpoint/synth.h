// Random checkpoints of any config in the released formats, with the statistics of the released
// weights (spec/model.md 7): what tests and benches run on.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/status.h"
#include "checkpoint/config.h"

namespace thalweg::checkpoint {

struct SynthesisOptions {
  uint64_t seed = 0;
  uint64_t max_shard_bytes = 4ull << 30;  // a shard holds at least one tensor, whatever its size
  bool tokenizer = true;                  // tokenizer.json and tokenizer_config.json
};

struct SynthesisSummary {
  int64_t tensors = 0;
  uint64_t bytes = 0;  // of tensor data
  int shards = 0;
};

// Writes config.json, generation_config.json, the index, shards, and a byte-level tokenizer whose
// vocabulary folds to engram_compressed_vocab_size keys; where no tokenizer can (too few ids), an
// engram_token_map.bin stands in. `dir` must not exist or be empty; it appears only when complete.
// The bytes of a tensor depend on the seed, its name and its shape alone. Memory stays bounded;
// free disk is checked first.
Result<SynthesisSummary> WriteSynthetic(const Config& config, const std::filesystem::path& dir,
                                        const SynthesisOptions& options = {});

}  // namespace thalweg::checkpoint
