#include "engine/output_pump.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace thalweg::engine {

OutputPump::OutputPump(const text::Tokenizer* tokenizer, const Clock* clock, Telemetry* telemetry,
                       Trace* trace, JobPool* jobs, PumpCalls calls)
    : tokenizer_(tokenizer),
      clock_(clock),
      telemetry_(telemetry),
      trace_(trace),
      jobs_(jobs),
      calls_(std::move(calls)),
      thread_([this] { Run(); }) {}

OutputPump::~OutputPump() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  wakes_.notify_one();
  thread_.join();
}

void OutputPump::Push(Report report) {
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(report));
  }
  wakes_.notify_one();
}

// Everything that was reported; empty when the pump closes.
std::vector<Report> OutputPump::Wait() {
  std::unique_lock lock(mutex_);
  wakes_.wait(lock, [&] { return closing_ || !queue_.empty(); });
  return std::exchange(queue_, {});
}

void OutputPump::Run() {
  while (true) {
    std::vector<Report> reports = Wait();
    if (reports.empty()) break;
    const double begin = clock_->Now();
    for (Report& report : reports) {
      Handle(report);
      if (report.job != nullptr) jobs_->Put(std::move(report.job));
    }
    Deliver();
    trace_->Span(Trace::Thread::kOutput, "output", begin, clock_->Now(),
                 fmt::format(R"("reports":{})", reports.size()));
    trace_->Flush();
  }
  TW_CHECK(streams_.empty());
}

void OutputPump::Begin(const RecordRef& record) {
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

void OutputPump::Touch(Stream* stream) {
  if (!std::exchange(stream->touched, true)) touched_.push_back(stream);
}

// Log-probabilities of a prompt come with chunks that bring no token, so no event tells of them.
void OutputPump::HandlePrompts(const Report& report) {
  for (const auto& [sequence, number] : report.prompt_starts) {
    const auto at = streams_.find(sequence);
    if (at != streams_.end()) at->second->stream.OnPromptStart(number);
  }
  if (prompt_logprobs_wanted_ == 0 || report.job == nullptr) return;
  for (const step::SequenceResult& result : report.job->result.sequences) {
    if (result.prompt_logprobs.empty()) continue;
    const auto at = streams_.find(result.sequence);
    if (at == streams_.end()) continue;
    at->second->stream.OnPromptLogprobs(report.job->result.number, result.prompt_logprobs);
  }
}

void OutputPump::Handle(const Report& report) {
  for (const RecordRef& record : report.submitted) Begin(record);
  HandlePrompts(report);
  for (const sched::Event& event : report.events) HandleEvent(event, report.at);
}

void OutputPump::HandleToken(Stream* stream, const step::SequenceResult& result, double at) {
  stream->stream.OnToken(result, at);
  telemetry_->TokensOut(1);
  if (stream->stream.ended()) calls_.stop(stream->stream.sequence());
}

void OutputPump::HandleEvent(const sched::Event& event, double at) {
  using Kind = sched::Event::Kind;
  // What ended by a stop string may still bring tokens, until the scheduler knows.
  const auto found = streams_.find(event.sequence);
  if (found == streams_.end() || found->second->stream.ended()) return;
  Stream* stream = found->second.get();
  switch (event.kind) {
    case Kind::kAdmitted:
      if (stream->stream.OnAdmitted(event.cached_tokens))
        telemetry_->SequenceAdmitted(stream->request->record->prompt_tokens);
      trace_->RequestMark(event.sequence, "admitted", at);
      return;
    case Kind::kPreempted: trace_->RequestMark(event.sequence, "preempted", at); return;
    case Kind::kToken: HandleToken(stream, *event.result, at); break;
    case Kind::kFinished: stream->stream.OnFinished(event.finish, event.status, at); break;
  }
  Touch(stream);
}

// Errors weigh more than cancellation, and that more than an ordinary end.
void OutputPump::DeliverLast(Stream* stream, const Output& output) {
  Open* open = stream->request;
  open->worst = std::max(open->worst, output.finish);
  const uint64_t sequence = stream->stream.sequence();
  const RecordRef record = open->record;
  trace_->RequestEnd(sequence, FinishReasonName(output.finish), output.at);
  if (record->wants_prompt_logprobs) --prompt_logprobs_wanted_;
  streams_.erase(sequence);
  const bool last = --open->sequences == 0;
  if (!last) {
    record->sink(output);
    return;
  }
  telemetry_->RequestEnded(open->worst);
  open_.erase(record->first_sequence);
  calls_.ending(*record);
  record->sink(output);
  calls_.ended(*record);
}

void OutputPump::Deliver() {
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
