// The tokenizer of a synthetic checkpoint: byte-level, the special tokens of spec/serving.md 2.2,
// and filler words that fold to exactly engram_compressed_vocab_size keys (spec/model.md 2.3).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"

namespace thalweg::checkpoint {

struct SyntheticVocabulary {
  std::vector<std::string> tokens;  // [vocab_size] as spelled in tokenizer.json
  std::vector<int64_t> added;       // ids of added tokens, ascending
  std::vector<bool> special;        // of added[i]
  // Whether the tokens fold to engram_compressed_vocab_size keys. When not, the checkpoint needs a
  // token map of its own.
  bool folds_as_configured = false;
};

// Nothing when vocab_size has no room for the 256 bytes beside the special tokens.
Result<std::optional<SyntheticVocabulary>> MakeVocabulary(const Config& config);

// tokenizer.json and tokenizer_config.json.
std::string TokenizerJson(const SyntheticVocabulary& vocabulary);
std::string TokenizerConfigJson(const Config& config);

// A map of vocab_size ids onto engram_compressed_vocab_size compressed ones, as the bytes of
// engram_token_map.bin.
std::string MadeUpTokenMap(const Config& config);

}  // namespace thalweg::checkpoint
