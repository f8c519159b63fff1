// Tokens of one sequence in, increments of its output out: text that is certain, stop strings,
// counts. Used by one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/record.h"
#include "text/stream_decoder.h"

namespace thalweg::engine {

class SequenceStream {
 public:
  // A null tokenizer: tokens alone, no text.
  SequenceStream(RecordRef record, int32_t index, const text::Tokenizer* tokenizer);

  uint64_t sequence() const {
    return record_->first_sequence + static_cast<uint64_t>(output_.index);
  }
  bool ended() const { return output_.finish != FinishReason::kNone; }

  // From the scheduler, in the order in which it happened; none of them after the end.
  // Whether it is the first time, and not again after a preemption.
  bool OnAdmitted(int64_t cached_tokens, double at);
  // The prompt is computed (again) from step `number` on: log-probabilities of earlier steps are
  // of no use.
  void OnPromptStart(uint64_t number);
  void OnPromptLogprobs(uint64_t number, const std::vector<step::PositionLogprobs>& positions);
  // A stop string may end the sequence here.
  void OnToken(const step::SampledToken& token, double at);
  void OnFinished(sched::Finish finish, const Status& status, double at);

  // What came since the last call.
  bool HasNews() const { return has_news_; }
  Output Take();

 private:
  void AddText(const step::SampledToken& token);
  void CountReasoning(int32_t token);
  void End(FinishReason reason, double at);

  RecordRef record_;
  std::optional<text::StreamDecoder> decoder_;
  StopMatcher matcher_;
  bool thinking_;
  uint64_t prompt_step_ = 0;
  std::vector<step::PositionLogprobs> prompt_logprobs_;
  Output output_;  // the increment that grows, and the running counts
  bool has_news_ = false;
  bool admitted_ = false;
};

}  // namespace thalweg::engine
