#include "exec/draft_costs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>

#include "base/math.h"
#include "sampling/best_first.h"

namespace thalweg::exec {
namespace {

constexpr int64_t kContext = 32;  // tokens before what is measured
constexpr size_t kRepeats = 3;

using Clock = std::chrono::steady_clock;

class Meter {
 public:
  explicit Meter(model::Model* model) : model_(*model) {}

  // Seconds of a step with so many rows, shared evenly among sequences; `verified`: logits of all.
  Result<double> StepSeconds(int64_t sequences, int64_t rows, bool verified) {
    return Median(sequences, kContext + base::CeilDiv(rows, sequences), [&] {
      FillChunks(rows, verified ? model::LogitRows::kAll : model::LogitRows::kLast);
      TW_TRY(model_.Step(chunks_, &output_));
      FindBest(output_.rows);
      return Status();
    });
  }

  Result<double> DraftSeconds(int64_t sequences) {
    return Median(sequences, kContext, [&] {
      requests_.clear();
      for (const kvpool::SequenceId id : open_) requests_.push_back({.sequence = id, .token = 1});
      return model_.Draft(requests_, &drafts_);
    });
  }

  bool Fits(int64_t sequences, int64_t rows) const {
    return sequences * BlocksOf(kContext + base::CeilDiv(rows, sequences)) <=
           model_.pool().blocks();
  }

 private:
  int64_t BlocksOf(int64_t tokens) const {
    return base::CeilDiv(tokens, model_.pool().geometry().block_tokens);
  }

  template <typename Work>
  Result<double> Median(int64_t sequences, int64_t tokens, const Work& work) {
    std::array<double, kRepeats> seconds = {};
    for (double& s : seconds) {
      Status status = Open(sequences, tokens);
      const auto begin = Clock::now();
      if (status.ok()) status = work();
      s = std::chrono::duration<double>(Clock::now() - begin).count();
      for (const kvpool::SequenceId id : open_) model_.pool().Close(id);
      open_.clear();
      TW_TRY(status);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[kRepeats / 2];
  }

  // Sequences of kContext tokens, with blocks for `tokens`.
  Status Open(int64_t sequences, int64_t tokens) {
    int32_t next = 0;
    std::vector<int32_t> blocks(static_cast<size_t>(BlocksOf(tokens)));
    for (int64_t i = 0; i < sequences; ++i) {
      TW_ASSIGN(const kvpool::SequenceId id, model_.pool().Open());
      open_.push_back(id);
      std::iota(blocks.begin(), blocks.end(), next);
      next += static_cast<int32_t>(blocks.size());
      TW_TRY(model_.pool().Attach(id, blocks));
    }
    const int64_t most = std::max<int64_t>(1, model_.options().max_rows / sequences);
    for (int64_t done = 0; done < kContext; done += most) {
      FillChunks(sequences * std::min(most, kContext - done), model::LogitRows::kNone);
      TW_TRY(model_.Step(chunks_, &output_));
    }
    return {};
  }

  // Tokens differ by sequence and place, so that rows choose different experts.
  void FillChunks(int64_t rows, model::LogitRows logits) {
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
                         .logits = logits});
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
  std::vector<kvpool::SequenceId> open_;
  std::vector<int32_t> tokens_;
  std::vector<model::Chunk> chunks_;
  model::StepOutput output_;
  std::vector<sampling::Entry> best_;
  std::vector<model::DraftRequest> requests_;
  model::DraftOutput drafts_;
};

}  // namespace

Result<spec::CostProfile> MeasureCosts(model::Model* model, int64_t drafts) {
  Meter meter(model);
  spec::CostProfile profile;
  const model::ModelOptions& o = model->options();
  for (spec::CostPoint p : spec::StepsToMeasure(o.max_sequences, o.max_rows, drafts)) {
    if (p.rows > o.max_rows || !meter.Fits(p.sequences, p.rows)) continue;
    const bool verified = p.rows <= p.sequences * (1 + drafts);
    TW_ASSIGN(p.seconds, meter.StepSeconds(p.sequences, p.rows, verified));
    profile.steps.push_back(p);
  }
  const int64_t most = o.max_rows / model->config().dspark_block_size;
  for (int64_t n = 1; n <= std::min(o.max_sequences, most); n *= 2) {
    if (!meter.Fits(n, 1)) break;
    TW_ASSIGN(const double seconds, meter.DraftSeconds(n));
    profile.drafts.push_back({.sequences = n, .seconds = seconds});
  }
  return profile;
}

}  // namespace thalweg::exec
