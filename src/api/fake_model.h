// A served model that says what a script says: everything around the weights is real (tokenizer,
// limits, grammars that are compiled, text, stop strings, n, cancellation), so protocols can be
// tested without them. Tokens are not bound by grammars: the script is what they are.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "api/fake_script.h"
#include "api/served_model.h"
#include "engine/constraints.h"
#include "engine/intake.h"

namespace thalweg::api {

class FakeModel final : public ServedModel {
 public:
  FakeModel(FakeScript script, std::shared_ptr<const text::Tokenizer> tokenizer);
  // Cancels what is under way.
  ~FakeModel() override;

  const std::string& name() const override { return script_.name; }
  int64_t context_tokens() const override { return script_.context_tokens; }
  const text::Tokenizer& tokenizer() const override { return *tokenizer_; }
  SamplingParams RecommendedParams() const override { return {}; }
  Expected<std::string> Submit(const Prompt& prompt, const SamplingParams& params,
                               StreamCallback callback, const RequestOptions& options) override;
  void Cancel(const std::string& request_id) override;
  void CancelOne(const std::string& request_id, int index) override;
  int64_t Drain(bool abandon) override;
  std::string MetricsJson() const override;

 private:
  using Clock = std::chrono::steady_clock;
  // What a sequence says next, and when.
  struct Line {
    std::vector<int32_t> tokens;
    std::chrono::microseconds delay;
  };
  struct Answer {
    FakeAnswer script;
    std::vector<Line> lines;
  };
  struct Request;
  struct Speaker;  // one sequence
  struct Due {
    Clock::time_point at;
    std::shared_ptr<Speaker> speaker;
    bool operator>(const Due& other) const { return at > other.at; }
  };

  std::vector<Line> LinesOf(const FakeAnswer& answer) const;
  const Answer* FindAnswer(const std::vector<int32_t>& prompt) const;
  Result<std::string> Begin(const Prompt& prompt, const SamplingParams& params,
                            StreamCallback callback, const RequestOptions& options);
  Result<std::string> Open(std::shared_ptr<Request> request, const std::vector<int32_t>& prompt);
  void Run();
  // When the step that a moment falls into ends.
  Clock::time_point EndOfStep(Clock::time_point at) const;
  void Speak(const Due& due);
  // The next tokens; false: there are none.
  bool Say(const Due& due);
  bool SayLine(Speaker* speaker);
  void SayToken(Speaker* speaker, int32_t token);
  void End(Speaker* speaker);
  void Deliver(Speaker* speaker);
  double Seconds() const;

  const FakeScript script_;
  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const engine::Intake intake_;
  engine::Constraints constraints_;
  std::vector<Answer> answers_;
  const Clock::time_point began_ = Clock::now();
  std::atomic<uint64_t> next_id_ = 1;
  std::atomic<uint64_t> requests_ = 0, finished_ = 0, cancelled_ = 0, failed_ = 0;
  std::atomic<uint64_t> prompt_tokens_ = 0, output_tokens_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::unordered_map<std::string, std::shared_ptr<Request>> open_;
  bool draining_ = false;
  bool stopping_ = false;
  bool speaking_ = false;  // callbacks may run
  std::thread thread_;
};

}  // namespace thalweg::api
