#include "engine/output_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace thalweg::engine {

OutputStage::OutputStage(const text::Tokenizer* tokenizer, Telemetry* telemetry, Trace* trace,
                         OutputCalls calls)
    : tokenizer_(tokenizer), telemetry_(telemetry), trace_(trace), calls_(std::move(calls)) {}

void OutputStage::Begin(const RecordRef& record) {
  auto open = std::make_unique<Open>(Open{.record = record, .sequences = record->n});
  for (int32_t i = 0; i < record->n; ++i) {
    SequenceStream stream(record, i, tokenizer_);
    const uint64_t sequence = stream.sequence();
    streams_[sequence] =
        std::make_unique<Stream>(Stream{.stream = std::move(stream), .request = open.get()});
    trace_->RequestBegin(sequence, record->id, record->submitted_at,
                         fmt::format(R"("prompt_tokens":{})", record->prompt_tokens));
  }
  if (record->wants_prompt_logprobs) prompt_logprobs_wanted_ += record->n;
  open_[record->first_sequence] = std::move(open);
}

void OutputStage::Touch(Stream* stream) {
  if (!std::exchange(stream->touched, true)) touched_.push_back(stream);
}

// Log-probabilities of a prompt come with chunks that bring no token, so no event tells of them.
void OutputStage::HandlePromptLogprobs(const step::StepResult& result) {
  if (prompt_logprobs_wanted_ == 0) return;
  for (const step::SequenceResult& r : result.sequences) {
    if (r.prompt_logprobs.empty()) continue;
    const auto at = streams_.find(r.sequence);
    if (at != streams_.end()) at->second->stream.OnPromptLogprobs(result.number, r.prompt_logprobs);
  }
}

// In the order in which it happened: the planner took the result, then planned what begins.
void OutputStage::Handle(const Report& report) {
  for (const RecordRef& record : report.submitted) Begin(record);
  if (report.job != nullptr) HandlePromptLogprobs(report.job->result);
  for (const sched::Event& event : report.events) HandleEvent(event, report.at);
  for (const auto& [sequence, number] : report.prompt_starts) {
    const auto at = streams_.find(sequence);
    if (at != streams_.end()) at->second->stream.OnPromptStart(number);
  }
}

void OutputStage::HandleToken(Stream* stream, const step::SampledToken& token, double at) {
  stream->stream.OnToken(token, at);
  telemetry_->TokensOut(1);
  if (stream->stream.ended()) calls_.stop(stream->stream.sequence());
}

void OutputStage::HandleAdmitted(Stream* stream, const sched::Event& event, double at) {
  if (stream->stream.OnAdmitted(event.cached_tokens, at)) {
    telemetry_->SequenceAdmitted(stream->request->record->prompt_tokens);
  }
  trace_->RequestMark(event.sequence, "admitted", at);
}

void OutputStage::HandleEvent(const sched::Event& event, double at) {
  using Kind = sched::Event::Kind;
  // What ended by a stop string may still bring tokens, until the scheduler knows.
  const auto found = streams_.find(event.sequence);
  if (found == streams_.end() || found->second->stream.ended()) return;
  Stream* stream = found->second.get();
  switch (event.kind) {
    case Kind::kAdmitted: HandleAdmitted(stream, event, at); return;
    case Kind::kPreempted: trace_->RequestMark(event.sequence, "preempted", at); return;
    case Kind::kToken: HandleToken(stream, *event.token, at); break;
    case Kind::kFinished: stream->stream.OnFinished(event.finish, event.status, at); break;
  }
  Touch(stream);
}

void OutputStage::Close(Open* open, const Output& output) {
  const RecordRef record = open->record;
  telemetry_->RequestEnded(open->worst);
  open_.erase(record->first_sequence);
  calls_.ending(*record);
  record->sink(output);
  calls_.ended(*record);
}

// Errors weigh more than cancellation, and that more than an ordinary end.
void OutputStage::DeliverLast(Stream* stream, const Output& output) {
  Open* open = stream->request;
  const uint64_t sequence = stream->stream.sequence();
  open->worst = std::max(open->worst, output.finish);
  trace_->RequestEnd(sequence, FinishReasonName(output.finish), output.at);
  if (open->record->wants_prompt_logprobs) --prompt_logprobs_wanted_;
  streams_.erase(sequence);
  if (--open->sequences == 0) {
    Close(open, output);
  } else {
    open->record->sink(output);
  }
}

void OutputStage::Deliver() {
  for (Stream* stream : touched_) {
    stream->touched = false;
    const Output output = stream->stream.Take();
    if (output.finish == FinishReason::kNone) {
      stream->request->record->sink(output);
    } else {
      DeliverLast(stream, output);
    }
  }
  touched_.clear();
}

}  // namespace thalweg::engine
