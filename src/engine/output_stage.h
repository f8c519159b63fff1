// What the output thread does, without the thread: reports of the planner become increments, and
// increments go to the sinks. Those of one sequence that wait together are merged.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/planner.h"
#include "engine/record.h"
#include "engine/sequence_stream.h"
#include "engine/telemetry.h"
#include "engine/trace.h"

namespace thalweg::engine {

// What the stage tells back.
struct OutputCalls {
  // A stop string ended the sequence: the scheduler may stop it.
  std::function<void(uint64_t sequence)> stop = {};
  // Before the last sink call of a request: its id is free from here on.
  std::function<void(const RequestRecord&)> ending = {};
  // After it.
  std::function<void(const RequestRecord&)> ended = {};
};

class OutputStage {
 public:
  // `tokenizer` may be null. What is pointed to outlives the stage.
  OutputStage(const text::Tokenizer* tokenizer, Telemetry* telemetry, Trace* trace,
              OutputCalls calls);

  void Handle(const Report& report);
  // Calls the sinks of all sequences with news.
  void Deliver();
  // No request is under way.
  bool empty() const { return streams_.empty(); }

 private:
  // Sequences of one request that have not ended.
  struct Open {
    RecordRef record;
    int32_t sequences = 0;
    FinishReason worst = FinishReason::kNone;
  };
  struct Stream {
    SequenceStream stream;
    Open* request;
    bool touched = false;
  };

  void Begin(const RecordRef& record);
  void HandlePromptLogprobs(const step::StepResult& result);
  void HandleEvent(const sched::Event& event, double at);
  void HandleToken(Stream* stream, const step::SampledToken& token, double at);
  void HandleAdmitted(Stream* stream, const sched::Event& event, double at);
  void Touch(Stream* stream);
  void DeliverLast(Stream* stream, const Output& output);
  void Close(Open* open, const Output& output);

  const text::Tokenizer* tokenizer_;
  Telemetry* telemetry_;
  Trace* trace_;
  OutputCalls calls_;

  std::unordered_map<uint64_t, std::unique_ptr<Stream>> streams_;
  std::unordered_map<uint64_t, std::unique_ptr<Open>> open_;  // by first sequence
  std::vector<Stream*> touched_;                              // in the order of their news
  int64_t prompt_logprobs_wanted_ = 0;                        // open sequences that want them
};

}  // namespace thalweg::engine
