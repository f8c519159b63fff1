#include "tools/bench/drafts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/bench/clock.h"

namespace thalweg::tools::bench {
namespace {

using kvpool::SequenceId;

constexpr int64_t kWarmSteps = 3;

double TokensAt(double acceptance, int64_t width) {
  double tokens = 1, survival = 1;
  for (int64_t k = 0; k < width; ++k) tokens += survival *= acceptance;
  return tokens;
}

// Steps of one width. Nothing is accepted, or next to nothing; rows cost the same.
class Steps {
 public:
  Steps(model::Model& model, const std::vector<SequenceId>& sequences, int64_t width)
      : model_(model),
        sequences_(sequences),
        tokens_(static_cast<size_t>(1 + width), 1),
        draft_(sequences.size(), 1),
        launches_(model.CanLaunch(1)) {}

  Status Run(int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) TW_TRY(launches_ ? LaunchOne() : RunOne());
    return {};
  }
  Status Finish() { return launches_ ? TakeDrafts() : Status(); }

 private:
  int64_t LengthOf(size_t i) const { return model_.pool().length(sequences_[i]); }

  // The host judges and drafts.
  Status RunOne() {
    std::vector<model::Chunk> chunks;
    std::vector<int64_t> starts;
    std::vector<model::DraftRequest> requests;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      starts.push_back(LengthOf(i));
      chunks.push_back(
          {.sequence = sequences_[i], .tokens = tokens_, .logits = model::LogitRows::kAll});
      requests.push_back({.sequence = sequences_[i],
                          .token = 1,
                          .choose = [](int, std::span<const float>) -> int32_t { return 1; }});
    }
    TW_TRY(model_.Step(chunks, &output_));
    for (size_t i = 0; i < sequences_.size(); ++i)
      TW_TRY(model_.pool().Truncate(sequences_[i], starts[i] + 1));
    return model_.Draft(requests, &drafts_);
  }

  model::Chunk ChunkOf(size_t i) const {
    const auto slot = static_cast<int32_t>(i);
    const bool verifies = drafted_ && tokens_.size() > 1;
    model::Chunk chunk{.sequence = sequences_[i],
                       .tokens = std::span(tokens_).first(drafted_ ? tokens_.size() : 1),
                       .logits = verifies ? model::LogitRows::kAll : model::LogitRows::kLast};
    if (drafted_) chunk.newest_slot = slot;
    if (verifies) chunk.drafts_at = model_.DraftsAt(slot);
    chunk.choose = {.seed = i, .position = LengthOf(i) + 1, .temperature = 0, .slot = slot};
    return chunk;
  }

  // The device does; the next forward is launched while it drafts.
  Status LaunchOne() {
    std::vector<model::Chunk> chunks;
    std::vector<int64_t> starts;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      starts.push_back(LengthOf(i));
      chunks.push_back(ChunkOf(i));
    }
    TW_TRY(model_.Launch(chunks));
    model_.Choose({.draft = draft_});
    TW_TRY(TakeDrafts());
    TW_TRY(model_.Collect(&output_));
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const int64_t accepted = output_.accepted.empty() ? 0 : output_.accepted[i];
      TW_TRY(model_.pool().Truncate(sequences_[i], starts[i] + 1 + std::max<int64_t>(0, accepted)));
    }
    drafted_ = true;
    return {};
  }

  Status TakeDrafts() { return model_.HasDrafts() ? model_.CollectDrafts(&launched_) : Status(); }

  model::Model& model_;
  const std::vector<SequenceId>& sequences_;
  std::vector<int32_t> tokens_;
  std::vector<uint8_t> draft_;
  bool launches_;
  bool drafted_ = false;
  model::StepOutput output_;
  model::DraftOutput drafts_;
  model::LaunchedDrafts launched_;
};

// Seconds of a step and the drafting behind it.
Result<double> SecondsOf(model::Model& model, const std::vector<SequenceId>& sequences,
                         int64_t width, int64_t steps) {
  Steps run(model, sequences, width);
  TW_TRY(run.Run(kWarmSteps));
  const auto begin = std::chrono::steady_clock::now();
  TW_TRY(run.Run(steps));
  TW_TRY(run.Finish());
  return SecondsSince(begin) / static_cast<double>(steps);
}

int64_t MostWidth(const model::Model& model, int64_t sequences) {
  const int64_t block = model.config().dspark_block_size;
  const int64_t rows = model.CanLaunch(1) ? model.MostLaunchRows() : model.options().max_rows;
  return std::min(block, rows / sequences - 1);
}

}  // namespace

double TokensOfWidth(double whole, int64_t block, int64_t width) {
  double low = 0, high = 1;  // of the acceptance, which is found by halving
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (TokensAt(middle, block) < whole ? low : high) = middle;
  }
  return TokensAt(low, width);
}

int64_t RoomForDrafts(const checkpoint::Config& config, int64_t steps) {
  return config.dspark_block_size * (kWarmSteps + steps) * 2 + config.dspark_block_size;
}

Status AddDraftedDecode(model::Model& model, const std::vector<SequenceId>& sequences,
                        const LayersBenchOptions& options, double plain_seconds,
                        const std::function<void(const std::string&)>& note,
                        std::vector<ModelFigure>* figures) {
  if (!model.config().HasDraft()) return {};
  const auto batch = static_cast<int64_t>(sequences.size());
  const int64_t block = model.config().dspark_block_size;
  double best = 1;
  int64_t best_width = 0;
  for (int64_t width = 1; width <= MostWidth(model, batch); ++width) {
    TW_ASSIGN(const double seconds, SecondsOf(model, sequences, width, options.steps));
    const double tokens = TokensOfWidth(options.acceptance, block, width);
    figures->push_back({.phase = fmt::format("drafts {}", width),
                        .layers = model.config().num_hidden_layers,
                        .batch = batch,
                        .context = options.context,
                        .tokens_per_s = static_cast<double>(batch) * tokens / seconds,
                        .ms_per_step = seconds * 1e3});
    const double gain = tokens * plain_seconds / seconds;
    if (gain > best) best = gain, best_width = width;
  }
  note(
      fmt::format("batch {}: with {:.2f} tokens a whole block, {} drafts are fastest: {:.2f} "
                  "times the speed without",
                  batch, options.acceptance, best_width, best));
  return {};
}

}  // namespace thalweg::tools::bench
