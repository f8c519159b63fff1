#include "tools/shift.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sampling/sampler.h"
#include "tools/generate.h"

namespace thalweg::tools {
namespace {

using model::ReplayMode;

// Blocks [first, first + count) as a table.
std::vector<int32_t> BlockRun(int64_t first, int64_t count) {
  std::vector<int32_t> blocks(static_cast<size_t>(count));
  std::iota(blocks.begin(), blocks.end(), static_cast<int32_t>(first));
  return blocks;
}

// One sequence that runs a variant over a prompt and what follows.
struct ShiftRun {
  model::Model& model;
  std::span<const int32_t> ids;
  const ShiftOptions& options;
  kvpool::SequenceId sequence;

  // Rows up to `end`, without logits.
  Status Feed(int64_t end, int64_t decoder_from) const {
    while (model.pool().length(sequence) < end) {
      const int64_t start = model.pool().length(sequence);
      const int64_t count = std::min(model.options().max_rows, end - start);
      const model::Chunk chunk{
          .sequence = sequence,
          .tokens = ids.subspan(static_cast<size_t>(start), static_cast<size_t>(count)),
          .decoder_from = decoder_from,
          .logits = model::LogitRows::kNone};
      model::StepOutput none;
      TW_TRY(model.Step({&chunk, 1}, &none));
    }
    return {};
  }

  // The last row of the prompt and those behind it.
  Result<std::vector<float>> Follow(int64_t decoder_from) const {
    const auto start = static_cast<size_t>(model.pool().length(sequence));
    const model::Chunk chunk{
        .sequence = sequence,
        .tokens = ids.subspan(start, static_cast<size_t>(options.follow_tokens)),
        .decoder_from = decoder_from,
        .logits = model::LogitRows::kAll};
    model::StepOutput output;
    TW_TRY(model.Step({&chunk, 1}, &output));
    return std::move(output.logits);
  }
};

int64_t TotalBlocks(const model::Model& model, const ShiftOptions& options) {
  return base::CeilDiv(options.prompt_tokens + options.follow_tokens,
                       const_cast<model::Model&>(model).pool().geometry().block_tokens);
}

Result<std::vector<float>> FromZero(model::Model& model, std::span<const int32_t> ids,
                                    int64_t prompt, int64_t decoder_from,
                                    const ShiftOptions& options) {
  TW_ASSIGN(const ScopedSequence sequence, ScopedSequence::Open(model));
  TW_TRY(model.pool().Attach(sequence.id(), BlockRun(0, TotalBlocks(model, options))));
  const ShiftRun run{model, ids, options, sequence.id()};
  TW_TRY(run.Feed(prompt - 1, decoder_from));
  return run.Follow(decoder_from);
}

// The prefix comes from a cold run's blocks, its windows from a replay of one window.
Result<std::vector<float>> FromHit(model::Model& model, std::span<const int32_t> ids,
                                   int64_t decoder_from, const ShiftOptions& options) {
  const int64_t block = model.pool().geometry().block_tokens;
  const int64_t hit = (options.prompt_tokens - options.own_tokens) / block * block;
  const int64_t blocks = TotalBlocks(model, options);
  TW_ASSIGN(const ScopedSequence cold, ScopedSequence::Open(model));
  TW_TRY(model.pool().Attach(cold.id(), BlockRun(0, blocks)));
  TW_TRY((ShiftRun{model, ids, options, cold.id()}.Feed(hit, decoder_from)));

  const int64_t window = model.config().sliding_window;
  const int64_t start =
      std::max<int64_t>(0, (decoder_from > 0 ? std::min(hit, decoder_from) : hit) - window) / 2 * 2;
  const int64_t from = std::max(decoder_from, start);
  TW_ASSIGN(const ScopedSequence sequence, ScopedSequence::Open(model));
  TW_TRY(model.pool().Attach(sequence.id(), BlockRun(0, hit / block)));
  TW_TRY(model.pool().Attach(sequence.id(), BlockRun(blocks, blocks - hit / block)));
  TW_TRY(model.Begin(sequence.id(),
                     {.length = start,
                      .encoder_floor = start,
                      .decoder_floor = std::min(from, start),
                      .write_from = hit},
                     ids.first(static_cast<size_t>(start))));
  const ShiftRun run{model, ids, options, sequence.id()};
  TW_TRY(run.Feed(options.prompt_tokens - 1, from));
  return run.Follow(from);
}

}  // namespace

std::vector<ShiftVariant> ShiftVariants(const model::Replay& compact) {
  using Kind = ShiftVariant::Kind;
  const model::Replay full{ReplayMode::kFull, compact.keep_tokens};
  const model::Replay halo{ReplayMode::kHalo, compact.keep_tokens};
  return {{"full", Kind::kReplay, full, "full"},
          {"halo", Kind::kReplay, halo, "full"},
          {"compact", Kind::kReplay, compact, "full"},
          {"tail alone", Kind::kTailOnly, compact, "full"},
          {"bounded hit, full", Kind::kHit, full, "full"},
          {"bounded hit, compact", Kind::kHit, compact, "compact"}};
}

void ShiftFigures::Add(std::span<const float> reference, std::span<const float> logits,
                       int32_t next) {
  const double lse_p = static_cast<double>(reference[0]) - sampling::LogProbability(reference, 0);
  const double lse_q = static_cast<double>(logits[0]) - sampling::LogProbability(logits, 0);
  double kl = 0;
  for (size_t v = 0; v < logits.size(); ++v) {
    const double p = static_cast<double>(reference[v]) - lse_p;
    const double q = static_cast<double>(logits[v]) - lse_q;
    kl += std::exp(p) * (p - q);
  }
  const auto top = [](std::span<const float> row) {
    return std::max_element(row.begin(), row.end()) - row.begin();
  };
  ++tokens;
  kl_sum += kl;
  kl_max = std::max(kl_max, kl);
  same_top += top(reference) == top(logits) ? 1 : 0;
  nll -= static_cast<double>(logits[static_cast<size_t>(next)]) - lse_q;
}

Result<std::vector<float>> LogitsBehindPrompt(model::Model& model, std::span<const int32_t> ids,
                                              const ShiftVariant& variant,
                                              const ShiftOptions& options) {
  const int64_t from = variant.replay.DecoderFrom(options.prompt_tokens, model.config());
  switch (variant.kind) {
    case ShiftVariant::Kind::kReplay:
      return FromZero(model, ids, options.prompt_tokens, from, options);
    case ShiftVariant::Kind::kHit: return FromHit(model, ids, from, options);
    case ShiftVariant::Kind::kTailOnly: {
      const int64_t keep = options.prompt_tokens - from;
      return FromZero(model, ids.subspan(static_cast<size_t>(from)), keep, 0, options);
    }
  }
  return base::Internal("a variant without a kind");
}

}  // namespace thalweg::tools
