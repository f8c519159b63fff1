// The output thread. Neither detokenising nor a slow sink holds up planning.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/clock.h"
#include "engine/job.h"
#include "engine/output_stage.h"
#include "engine/trace.h"

namespace thalweg::engine {

class OutputPump {
 public:
  // What is pointed to outlives the pump; `stage` is used by its thread alone.
  OutputPump(OutputStage* stage, const Clock* clock, Trace* trace, JobPool* jobs);
  // Delivers what was reported, then ends the thread.
  ~OutputPump();

  void Push(Report report);
  std::thread::id thread_id() const { return thread_.get_id(); }

 private:
  void Run();
  std::vector<Report> Wait();

  OutputStage* stage_;
  const Clock* clock_;
  Trace* trace_;
  JobPool* jobs_;

  std::mutex mutex_;
  std::condition_variable wakes_;
  std::vector<Report> queue_;
  bool closing_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace thalweg::engine
