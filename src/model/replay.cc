#include "model/replay.h"

#include <fmt/format.h>

#include <algorithm>

namespace thalweg::model {

Result<ReplayMode> ParseReplayMode(std::string_view name) {
  if (name == "full") return ReplayMode::kFull;
  if (name == "compact") return ReplayMode::kCompact;
  if (name == "halo") return ReplayMode::kHalo;
  return base::InvalidArgument(
      fmt::format("unknown replay mode \"{}\": one of full, compact, halo", name));
}

int64_t RollbackTokens(const checkpoint::Config& config) {
  return 2 * (1 + config.dspark_block_size);
}

int64_t DefaultKeepTokens(const checkpoint::Config& config) {
  return config.sliding_window + RollbackTokens(config);
}

int64_t HaloTokens(const checkpoint::Config& config) {
  const int64_t trimmed_layers = config.num_hidden_layers - config.DecoderBegin();
  return DefaultKeepTokens(config) + (trimmed_layers - 1) * (config.sliding_window - 1);
}

Result<Replay> Replay::Make(ReplayMode mode, std::optional<int64_t> keep_tokens,
                            const checkpoint::Config& config) {
  const int64_t least = DefaultKeepTokens(config);
  if (keep_tokens.has_value() && *keep_tokens < least) {
    return base::InvalidArgument(
        fmt::format("keeping {} prompt tokens for the decoder is too few: the window of {} and {} "
                    "tokens of backtracking "
                    "need at least {}",
                    *keep_tokens, config.sliding_window, RollbackTokens(config), least));
  }
  return Replay{mode, keep_tokens.value_or(least)};
}

int64_t Replay::DecoderFrom(int64_t prompt_tokens, const checkpoint::Config& config) const {
  switch (mode) {
    case ReplayMode::kFull: return 0;
    case ReplayMode::kCompact: return std::max<int64_t>(0, prompt_tokens - keep_tokens);
    case ReplayMode::kHalo: return std::max<int64_t>(0, prompt_tokens - HaloTokens(config));
  }
  return 0;
}

}  // namespace thalweg::model
