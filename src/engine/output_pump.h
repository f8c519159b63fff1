// The output thread: turns what the planner reports into increments and hands them to the sinks.
// Neither detokenising nor a slow sink holds up planning; increments that wait are merged.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/clock.h"
#include "engine/job.h"
#include "engine/record.h"
#include "engine/sequence_stream.h"
#include "engine/telemetry.h"
#include "engine/trace.h"

namespace thalweg::engine {

// What one turn of the planner tells.
struct Report {
  std::vector<RecordRef> submitted = {};                          // new, before all else
  std::vector<std::pair<uint64_t, uint64_t>> prompt_starts = {};  // sequence, step number
  std::unique_ptr<Job> job = {};                                  // may be null
  std::vector<sched::Event> events = {};                          // results point into the job
  double at = 0;
};

// What the pump tells back; called on the output thread.
struct PumpCalls {
  // A stop string ended the sequence: the scheduler may stop it.
  std::function<void(uint64_t sequence)> stop = {};
  // Before the last sink call of a request: its id is free from here on.
  std::function<void(const RequestRecord&)> ending = {};
  // After it.
  std::function<void(const RequestRecord&)> ended = {};
};

class OutputPump {
 public:
  // `tokenizer` may be null. What is pointed to outlives the pump.
  OutputPump(const text::Tokenizer* tokenizer, const Clock* clock, Telemetry* telemetry,
             Trace* trace, JobPool* jobs, PumpCalls calls);
  // Delivers what was reported, then ends the thread.
  ~OutputPump();

  void Push(Report report);
  std::thread::id thread_id() const { return thread_.get_id(); }

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

  void Run();
  std::vector<Report> Wait();
  void Handle(const Report& report);
  void HandlePrompts(const Report& report);
  void HandleEvent(const sched::Event& event, double at);
  void HandleToken(Stream* stream, const step::SequenceResult& result, double at);
  void Begin(const RecordRef& record);
  void Touch(Stream* stream);
  void Deliver();
  void DeliverLast(Stream* stream, const Output& output);

  const text::Tokenizer* tokenizer_;
  const Clock* clock_;
  Telemetry* telemetry_;
  Trace* trace_;
  JobPool* jobs_;
  PumpCalls calls_;

  // The output thread's own.
  std::unordered_map<uint64_t, std::unique_ptr<Stream>> streams_;
  std::unordered_map<uint64_t, std::unique_ptr<Open>> open_;  // by first sequence
  std::vector<Stream*> touched_;                              // in the order of their news
  int64_t prompt_logprobs_wanted_ = 0;                        // open sequences that want them

  std::mutex mutex_;
  std::condition_variable wakes_;
  std::vector<Report> queue_;
  bool closing_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace thalweg::engine
