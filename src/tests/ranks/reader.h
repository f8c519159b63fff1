// One rank of a group that shares experts, and the text that it reads in pieces; for tests.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/thread_team.h"
#include "model/expert_parallel.h"
#include "tests/invariance/checkpoints.h"

namespace thalweg::tests {

inline constexpr int64_t kLongest = 33;

// What one rank reads: rank 0 the longest text in wide pieces, the next ones less, every fourth
// nothing at all.
struct Reading {
  std::vector<int32_t> text;
  int64_t width = 1;
};

inline Reading ReadingOf(const checkpoint::Config& config, int rank) {
  if (rank % 4 == 3) return {};
  const int64_t length = kLongest - 11 * (rank % 4);
  return {SomeText(config, length, 10 + static_cast<uint32_t>(rank)), 3 + rank % 5};
}

// One piece of a text a step; the logits of all rows. The third piece runs the encoder alone.
class RankReader {
 public:
  RankReader(const checkpoint::Checkpoint& checkpoint, const kernels::Ops& ops, int rank,
             model::ExpertParallel* experts, model::Repack repack = model::Repack::kNever)
      : team_(1), reading_(ReadingOf(checkpoint.config(), rank)) {
    model::ModelOptions options = OptionsFor(ops, 1, 1, kLongest + 8);
    options.team = &team_;
    options.graphs = false;  // a device that is pretended records none
    options.repack = repack;
    options.experts_move = experts != nullptr && repack != model::Repack::kNever;
    options.expert_parallel = experts;
    model_ = LoadModel(checkpoint, options);
    sequence_ = model_->pool().Open().value();
  }

  Status Step() {
    const auto length = static_cast<int64_t>(reading_.text.size());
    const int64_t rows = std::min(reading_.width, length - at_);
    if (rows == 0) return model_->Idle();
    const bool encoder_alone = steps_ == 2;
    const model::Chunk chunk{
        .sequence = sequence_,
        .tokens =
            std::span(reading_.text).subspan(static_cast<size_t>(at_), static_cast<size_t>(rows)),
        .decoder_from = encoder_alone ? at_ + rows : 0,
        .logits = encoder_alone ? model::LogitRows::kNone : model::LogitRows::kAll};
    model::StepOutput output;
    TW_TRY(model_->Step({&chunk, 1}, &output));
    logits_.insert(logits_.end(), output.logits.begin(), output.logits.end());
    at_ += rows;
    ++steps_;
    return {};
  }
  model::Model& model() { return *model_; }
  bool done() const { return at_ == static_cast<int64_t>(reading_.text.size()); }
  const std::vector<float>& logits() const { return logits_; }

 private:
  base::ThreadTeam team_;
  Reading reading_;
  std::unique_ptr<model::Model> model_;
  kvpool::SequenceId sequence_ = {};
  int64_t at_ = 0;
  int64_t steps_ = 0;
  std::vector<float> logits_;
};

}  // namespace thalweg::tests
