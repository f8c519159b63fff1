// Counters and histograms in Prometheus' text format, under the names of vLLM where it has them
// (docs/server.md has the table).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/access_log.h"
#include "server/reply.h"

namespace thalweg::server {

// Cumulative counts under upper bounds, ascending. Thread-safe.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}
  void Observe(double value);
  void Write(std::string_view name, std::string_view help, std::string_view labels,
             std::string* out) const;

 private:
  std::span<const double> bounds_;
  std::vector<std::atomic<uint64_t>> counts_;  // the last: beyond all bounds
  std::atomic<double> sum_ = 0;
};

// A sequence that has ended.
struct SequenceFigures {
  int64_t prompt = 0, cached = 0, tokens = 0;
  RequestMetrics times = {};
};

class Metrics {
 public:
  explicit Metrics(std::string model_name);

  // An increment of a sequence that brought `tokens`; `since`: seconds since its last one, negative
  // for the first.
  void OnTokens(const RequestMetrics& times, int64_t tokens, double since);
  void OnToolFaults(int64_t faults) { tool_faults_ += static_cast<uint64_t>(faults); }
  // Tools whose schemas no grammar can enforce.
  void OnRelaxed() { ++relaxed_; }
  void OnAbort(std::string_view cause);
  // A request to the model, as it was asked; and the end of a sequence of it.
  void OnAsked(const SamplingParams& params);
  void OnFinish(std::string_view reason);
  void OnSequence(const SequenceFigures& figures);
  void OnResponse(const RequestRecord& record);
  void OnConnection(int64_t change) { connections_ += change; }

  // `engine`: MetricsJson of the model.
  std::string Text(std::string_view engine, int64_t under_way) const;

 private:
  void WriteEngine(std::string_view engine, std::string* out) const;
  void WriteStepRows(const base::Json& rows, std::string* out) const;
  void WriteHistograms(std::string* out) const;
  void WriteServer(int64_t under_way, std::string* out) const;

  const std::string model_label_;  // model_name="...",engine="0"
  Histogram first_token_, between_tokens_, whole_, queue_, prefill_, decode_, running_, each_token_;
  Histogram prompt_tokens_, computed_tokens_, generation_tokens_, asked_tokens_, asked_sequences_;
  std::atomic<uint64_t> tool_faults_ = 0, relaxed_ = 0;
  std::atomic<int64_t> connections_ = 0;
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t, std::less<>> aborts_, finishes_;
  std::map<std::pair<std::string, int>, uint64_t> responses_;  // path, status
};

}  // namespace thalweg::server
