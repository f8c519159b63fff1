// Which prompt rows the decoder runs: bounded replay and its exact variants (spec/model.md 2.7,
// decoding.md 2).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "checkpoint/config.h"

namespace thalweg::model {

enum class ReplayMode {
  kFull,     // every layer over every row
  kCompact,  // the decoder over the last `keep` rows of the prompt: an approximation the model was
             // trained with
  kHalo,     // the decoder over as many rows as make the result equal to kFull
};

// "full", "compact", "halo".
Result<ReplayMode> ParseReplayMode(std::string_view name);

// Rows that may be taken back after a prompt: two verify blocks of 1 + draft block rows in flight
// (decoding.md 2.3).
int64_t RollbackTokens(const checkpoint::Config& config);
// window + RollbackTokens: 140 for the release.
int64_t DefaultKeepTokens(const checkpoint::Config& config);
// Rows that make the last window + rollback rows of every decoder layer exact.
int64_t HaloTokens(const checkpoint::Config& config);

struct Replay {
  ReplayMode mode = ReplayMode::kFull;
  int64_t keep_tokens = 0;  // kCompact; at least DefaultKeepTokens

  // A keep below window + backtracking is an error. No keep: the default.
  static Result<Replay> Make(ReplayMode mode, std::optional<int64_t> keep_tokens,
                             const checkpoint::Config& config);
  // The first position of a prompt that the decoder runs; always relative to the prompt's end,
  // never to a chunk's.
  int64_t DecoderFrom(int64_t prompt_tokens, const checkpoint::Config& config) const;
};

}  // namespace thalweg::model
