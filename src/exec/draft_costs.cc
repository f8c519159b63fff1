#include "exec/draft_costs.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/math.h"
#include "sampling/best_first.h"

namespace thalweg::exec {
namespace {

constexpr int64_t kContext = 32;  // tokens before what is measured
constexpr int64_t kBurst = 3;     // steps of a device, launched one behind the other

using Clock = std::chrono::steady_clock;

class Meter {
 public:
  Meter(model::Model* model, int64_t drafts, bool waits)
      : model_(*model), drafts_(drafts), waits_(waits) {}

  // Seconds of a step whose rows the sequences share evenly.
  Result<double> Step(const spec::CostPoint& p) {
    const bool verified = p.rows <= p.sequences * (1 + drafts_);
    if (verified && model_.CanLaunch(p.rows)) return Launched(p.sequences, p.rows, false);
    return Time(p.sequences, kContext + base::CeilDiv(p.rows, p.sequences), [&] {
      FillChunks(p.rows, verified ? model::LogitRows::kAll : model::LogitRows::kLast, false);
      TW_TRY(model_.Step(chunks_, &output_));
      FindBest(output_.rows);
      return Status();
    });
  }

  // A step that writes the draft module's context, and the draft, less a step that does not.
  Result<double> Draft(int64_t sequences) {
    if (model_.CanLaunch(sequences)) {
      TW_ASSIGN(const double plain, Launched(sequences, sequences, false));
      TW_ASSIGN(const double drafted, Launched(sequences, sequences, true));
      return std::max(drafted - plain, plain / 100);
    }
    const auto step = [&](bool context) {
      FillChunks(sequences, model::LogitRows::kLast, context);
      return model_.Step(chunks_, &output_);
    };
    TW_ASSIGN(const double plain, Time(sequences, kContext + 1, [&] { return step(false); }));
    double alone = 0;
    const auto drafted = Time(sequences, kContext + 1, [&] {
      TW_TRY(step(true));
      const auto begin = Clock::now();
      requests_.clear();
      for (const kvpool::SequenceId id : open_) requests_.push_back({.sequence = id, .token = 1});
      TW_TRY(model_.Draft(requests_, &blocks_));
      alone = Since(begin);
      return Status();
    });
    TW_TRY(drafted.status());
    return std::max(alone, *drafted - plain);
  }

 private:
  static double Since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  // Seconds of a step among others that a device runs beside the host, with the draft or without.
  Result<double> Launched(int64_t sequences, int64_t rows, bool draft) {
    const int64_t tokens = kContext + kBurst * base::CeilDiv(rows, sequences);
    TW_ASSIGN(const double seconds, Time(sequences, tokens, [&] { return Burst(rows, draft); }));
    return seconds / kBurst;
  }

  // Where lengths depend on confidences a step behind drafts is made when they are there.
  Status Burst(int64_t rows, bool draft) {
    const int64_t ahead = draft && waits_ ? 0 : 1;
    for (int64_t i = 0; i < kBurst; ++i) {
      TW_TRY(LaunchOne(rows, draft));
      if (i >= ahead) TW_TRY(CollectOne());
      if (ahead == 0 && model_.HasDrafts()) TW_TRY(model_.CollectDrafts(&launched_));
    }
    if (ahead > 0) TW_TRY(CollectOne());
    return model_.HasDrafts() ? model_.CollectDrafts(&launched_) : Status();
  }

  Status LaunchOne(int64_t rows, bool draft) {
    FillChunks(rows, model::LogitRows::kAll, draft);
    for (size_t s = 0; s < chunks_.size(); ++s) {
      chunks_[s].choose = {.position = model_.pool().length(chunks_[s].sequence) + 1,
                           .slot = static_cast<int32_t>(s)};
    }
    TW_TRY(model_.Launch(chunks_));
    const std::vector<uint8_t> behind(chunks_.size(), draft ? 1 : 0);
    model_.Choose({.draft = behind});
    return {};
  }

  Status CollectOne() {
    if (model_.HasDrafts()) TW_TRY(model_.CollectDrafts(&launched_));
    return model_.Collect(&output_);
  }

  template <typename Work>
  Result<double> Time(int64_t sequences, int64_t tokens, const Work& work) {
    Status status = Open(sequences, tokens);
    const auto begin = Clock::now();
    if (status.ok()) status = work();
    const double seconds = Since(begin);
    for (const kvpool::SequenceId id : open_) model_.pool().Close(id);
    open_.clear();
    TW_TRY(status);
    return seconds;
  }

  // Sequences of kContext tokens, with blocks for `tokens`.
  Status Open(int64_t sequences, int64_t tokens) {
    int32_t next = 0;
    std::vector<int32_t> blocks(
        static_cast<size_t>(base::CeilDiv(tokens, model_.pool().geometry().block_tokens)));
    for (int64_t i = 0; i < sequences; ++i) {
      TW_ASSIGN(const kvpool::SequenceId id, model_.pool().Open());
      open_.push_back(id);
      std::iota(blocks.begin(), blocks.end(), next);
      next += static_cast<int32_t>(blocks.size());
      TW_TRY(model_.pool().Attach(id, blocks));
    }
    const int64_t most = std::max<int64_t>(1, model_.options().max_rows / sequences);
    for (int64_t done = 0; done < kContext; done += most) {
      FillChunks(sequences * std::min(most, kContext - done), model::LogitRows::kNone, true);
      TW_TRY(model_.Step(chunks_, &output_));
    }
    return {};
  }

  // Tokens differ by sequence and place, so that rows choose different experts.
  void FillChunks(int64_t rows, model::LogitRows logits, bool draft_context) {
    const auto sequences = static_cast<int64_t>(open_.size());
    tokens_.resize(static_cast<size_t>(rows));
    for (size_t i = 0; i < tokens_.size(); ++i)
      tokens_[i] = static_cast<int32_t>(i * 7919 % static_cast<size_t>(model_.config().vocab_size));
    chunks_.clear();
    int64_t at = 0;
    for (int64_t s = 0; s < sequences; ++s) {
      const int64_t count = rows * (s + 1) / sequences - rows * s / sequences;
      if (count == 0) continue;
      chunks_.push_back({.sequence = open_[static_cast<size_t>(s)],
                         .tokens = std::span(tokens_).subspan(static_cast<size_t>(at),
                                                              static_cast<size_t>(count)),
                         .logits = logits,
                         .draft_context = draft_context});
      at += count;
    }
  }

  void FindBest(int64_t rows) {
    const auto vocab = static_cast<size_t>(model_.config().vocab_size);
    best_.resize(static_cast<size_t>(rows));
    model_.options().team->ParallelFor(rows, 1, [&](int64_t begin, int64_t end) {
      for (auto r = static_cast<size_t>(begin); r < static_cast<size_t>(end); ++r)
        best_[r] = sampling::Summarise(std::span(output_.logits).subspan(r * vocab, vocab)).best;
    });
  }

  model::Model& model_;
  const int64_t drafts_;
  const bool waits_;  // for confidences
  std::vector<kvpool::SequenceId> open_;
  std::vector<int32_t> tokens_;
  std::vector<model::Chunk> chunks_;
  model::StepOutput output_;
  std::vector<sampling::Entry> best_;
  std::vector<model::DraftRequest> requests_;
  model::DraftOutput blocks_;
  model::LaunchedDrafts launched_;
};

}  // namespace

// Each sequence that is measured needs two blocks, a full step its rows and one block more for
// each: what the pool has no room for is not measured.
Result<spec::CostProfile> MeasureCosts(model::Model* model, int64_t drafts, bool variable) {
  Meter meter(model, drafts, variable);
  const model::ModelOptions& o = model->options();
  const int64_t blocks = model->pool().blocks();
  const int64_t sequences = std::max<int64_t>(1, std::min(o.max_sequences, blocks / 4));
  const int64_t rows = std::min(o.max_rows, blocks / 2 * model->pool().geometry().block_tokens);
  return spec::MeasureCosts(sequences, std::max(rows, sequences), drafts,
                            {.step = [&](const spec::CostPoint& p) { return meter.Step(p); },
                             .draft = [&](int64_t n) { return meter.Draft(n); }});
}

}  // namespace thalweg::exec
