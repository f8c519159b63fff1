#include "model/step_results.h"

#include <algorithm>

#include "model/step_graphs.h"

namespace thalweg::model {

namespace {

constexpr auto kInt = static_cast<int64_t>(sizeof(int32_t));

}  // namespace

StepResults::StepResults(const ModelOptions& options, const checkpoint::Config& config,
                         const tensor::Stream& stream)
    : memory_(*options.ops->memory),
      stream_(stream),
      vocab_(config.vocab_size),
      slots_(options.max_sequences),
      draft_block_(config.dspark_block_size) {
  if (memory_.host) return;
  const int64_t few = std::min(kMostGraphRows, options.max_rows);
  few_ = tensor::Buffer(few * vocab_ * static_cast<int64_t>(sizeof(float)), memory_);
  newest_ = tensor::Buffer(slots_ * (1 + draft_block_) * kInt, memory_);
  chosen_ = tensor::Buffer(few * kInt, memory_);
  accepted_ = tensor::Buffer(slots_ * kInt, memory_);
  if (memory_.steps == nullptr) return;
  const int64_t drafts = draft_block_ * (slots_ + FilledRows(slots_)) * kInt;
  for (Place& place : places_) {
    place.tokens = tensor::TakePinned(*memory_.steps, (few + slots_) * kInt);
    if (drafts > 0) place.drafts = tensor::TakePinned(*memory_.steps, drafts);
  }
}

float* StepResults::TakeLogits(int64_t rows, std::vector<float>* host) {
  const int64_t count = rows * vocab_;
  if (memory_.host) {
    host->resize(static_cast<size_t>(count));
    return host->data();
  }
  const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
  const bool fits = bytes <= few_.bytes();
  if (!fits && many_.bytes() < bytes) many_ = tensor::Buffer(bytes, memory_);
  logits_ = (fits ? few_ : many_).as<float>();
  return logits_;
}

void StepResults::FetchLogits(std::vector<float>* host) const {
  if (memory_.host || host->empty()) return;
  memory_.download(stream_, host->data(), logits_,
                   static_cast<int64_t>(host->size() * sizeof(float)));
}

void StepResults::Launched(const Wanted& wanted) {
  Place& place = places_[next_];
  const tensor::StepQueue& steps = *memory_.steps;
  if (wanted.logits) {
    const int64_t bytes = wanted.rows * vocab_ * static_cast<int64_t>(sizeof(float));
    if (place.logits_bytes < bytes) {
      place.logits = tensor::TakePinned(steps, bytes);
      place.logits_bytes = bytes;
    }
    steps.download(stream_, place.logits.get(), logits_, bytes);
  }
  auto* tokens = static_cast<int32_t*>(place.tokens.get());
  if (wanted.chosen) steps.download(stream_, tokens, chosen_.data(), wanted.rows * kInt);
  if (wanted.blocks > 0)
    steps.download(stream_, tokens + wanted.rows, accepted_.data(), wanted.blocks * kInt);
  under_way_.push_back({.place = next_, .wanted = wanted});
  next_ = (next_ + 1) % kPlaces;
}

void StepResults::Drafted(const float* confidences, int64_t sequences) {
  const int64_t all = slots_ * draft_block_;
  auto* drafts = static_cast<int32_t*>(places_[under_way_.back().place].drafts.get());
  memory_.steps->download(stream_, drafts, newest() + slots_, all * kInt);
  memory_.steps->download(stream_, drafts + all, confidences, sequences * draft_block_ * kInt);
  under_way_.back().sequences = sequences;
}

void StepResults::Collect(StepOutput* output) {
  const Step step = under_way_.front();
  under_way_.pop_front();
  const Place& place = places_[step.place];
  const auto* logits = static_cast<const float*>(place.logits.get());
  const auto* tokens = static_cast<const int32_t*>(place.tokens.get());
  const Wanted& w = step.wanted;
  output->rows = w.rows;
  output->logits.clear();
  output->chosen.clear();
  if (w.logits) output->logits.assign(logits, logits + w.rows * vocab_);
  if (w.chosen) output->chosen.assign(tokens, tokens + w.rows);
  output->accepted.assign(tokens + w.rows, tokens + w.rows + w.blocks);
  drafts_ = step;
}

void StepResults::CollectDrafts(LaunchedDrafts* output) {
  const auto* drafts = static_cast<const int32_t*>(places_[drafts_.place].drafts.get());
  const int64_t all = slots_ * draft_block_;
  const auto* confidences = reinterpret_cast<const float*>(drafts + all);
  output->tokens.assign(drafts, drafts + all);
  output->sequences = drafts_.sequences;
  output->confidence.assign(confidences, confidences + drafts_.sequences * draft_block_);
  drafts_ = {};
}

}  // namespace thalweg::model
