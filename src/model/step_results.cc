#include "model/step_results.h"

#include <algorithm>

#include "model/step_graphs.h"

namespace thalweg::model {

StepResults::StepResults(const ModelOptions& options, int64_t vocab, const tensor::Stream& stream)
    : memory_(*options.ops->memory), stream_(stream), vocab_(vocab) {
  if (memory_.host) return;
  constexpr auto kInt = static_cast<int64_t>(sizeof(int32_t));
  const int64_t few = std::min(kMostGraphRows, options.max_rows);
  few_ = tensor::Buffer(few * vocab * static_cast<int64_t>(sizeof(float)), memory_);
  newest_ = tensor::Buffer(options.max_sequences * kInt, memory_);
  chosen_ = tensor::Buffer(few * kInt, memory_);
  if (memory_.steps == nullptr) return;
  for (Place& place : places_) place.tokens = tensor::TakePinned(*memory_.steps, few * kInt);
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

void StepResults::Launched(int64_t rows, bool logits, bool chosen) {
  Place& place = places_[next_];
  if (logits) {
    const int64_t bytes = rows * vocab_ * static_cast<int64_t>(sizeof(float));
    if (place.logits_bytes < bytes) {
      place.logits = tensor::TakePinned(*memory_.steps, bytes);
      place.logits_bytes = bytes;
    }
    memory_.steps->download(stream_, place.logits.get(), logits_, bytes);
  }
  if (chosen) {
    memory_.steps->download(stream_, place.tokens.get(), chosen_.data(),
                            rows * static_cast<int64_t>(sizeof(int32_t)));
  }
  under_way_.push_back({next_, rows, logits, chosen});
  next_ = (next_ + 1) % kPlaces;
}

void StepResults::Collect(StepOutput* output) {
  const Step step = under_way_.front();
  under_way_.pop_front();
  const Place& place = places_[step.place];
  const auto* logits = static_cast<const float*>(place.logits.get());
  const auto* tokens = static_cast<const int32_t*>(place.tokens.get());
  output->rows = step.rows;
  output->logits.clear();
  output->chosen.clear();
  if (step.logits) output->logits.assign(logits, logits + step.rows * vocab_);
  if (step.chosen) output->chosen.assign(tokens, tokens + step.rows);
}

}  // namespace thalweg::model
