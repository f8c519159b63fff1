#include "tests/engine/harness.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>

#include "base/rng.h"

namespace thalweg::tests {
namespace {

// Answers of one batch as its outputs arrive.
class Collector {
 public:
  explicit Collector(const std::vector<engine::GenerateRequest>& all) {
    for (const engine::GenerateRequest& request : all) {
      first_.push_back(open_);
      open_ += static_cast<size_t>(request.n);
    }
    answers_.resize(open_);
  }

  engine::OutputSink SinkOf(size_t request) {
    return [this, request](const engine::Output& output) { Take(request, output); };
  }

  void Refused(size_t request, const Status& status) {
    const std::lock_guard lock(mutex_);
    const size_t end = request + 1 < first_.size() ? first_[request + 1] : answers_.size();
    for (size_t i = first_[request]; i < end; ++i) {
      answers_[i].status = status;
      answers_[i].finish = engine::FinishReason::kError;
      --open_;
    }
  }

  std::vector<Answer> Wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return open_ == 0; });
    return answers_;
  }

 private:
  static void Append(const step::TokenLogprob& l, std::vector<float>* out) {
    out->insert(out->end(), {static_cast<float>(l.token), l.logprob, static_cast<float>(l.rank)});
  }

  static void Append(const step::PositionLogprobs& position, std::vector<float>* out) {
    Append(position.chosen, out);
    for (const step::TokenLogprob& l : position.top) Append(l, out);
  }

  void Take(size_t request, const engine::Output& output) {
    const std::lock_guard lock(mutex_);
    Answer& answer = answers_[first_[request] + static_cast<size_t>(output.index)];
    EXPECT_EQ(answer.finish, engine::FinishReason::kNone) << "an output behind the last";
    for (const auto& position : output.prompt_logprobs) Append(position, &answer.logprobs);
    for (const engine::TokenOutput& token : output.tokens) {
      answer.tokens.push_back(token.id);
      if (token.logprobs.has_value()) Append(*token.logprobs, &answer.logprobs);
    }
    answer.text += output.text;
    answer.cached_tokens = output.cached_tokens;
    answer.finish = output.finish;
    answer.status = output.status;
    if (output.finish != engine::FinishReason::kNone && --open_ == 0) done_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<size_t> first_;
  std::vector<Answer> answers_;
  size_t open_ = 0;
};

}  // namespace

std::string Difference(const Answer& expected, const Answer& actual) {
  if (expected == actual) return "";
  if (expected.status.code() != actual.status.code())
    return fmt::format("status {} instead of {}", actual.status.ToString(),
                       expected.status.ToString());
  for (size_t i = 0; i < std::min(expected.tokens.size(), actual.tokens.size()); ++i) {
    if (expected.tokens[i] != actual.tokens[i])
      return fmt::format("token {} is {} instead of {}", i, actual.tokens[i], expected.tokens[i]);
  }
  if (expected.tokens.size() != actual.tokens.size())
    return fmt::format("{} tokens instead of {}", actual.tokens.size(), expected.tokens.size());
  if (expected.text != actual.text)
    return fmt::format("text \"{}\" instead of \"{}\"", actual.text, expected.text);
  for (size_t i = 0; i < std::min(expected.logprobs.size(), actual.logprobs.size()); ++i) {
    if (expected.logprobs[i] != actual.logprobs[i])
      return fmt::format("log-probability value {} is {} instead of {}", i, actual.logprobs[i],
                         expected.logprobs[i]);
  }
  return fmt::format("{} log-probability values instead of {}, or another end ({} instead of {})",
                     actual.logprobs.size(), expected.logprobs.size(),
                     engine::FinishReasonName(actual.finish),
                     engine::FinishReasonName(expected.finish));
}

engine::EngineOptions NanoOptions() {
  engine::EngineOptions options;
  options.model = std::string(THALWEG_SOURCE_DIR) + "/models/nano";
  options.threads = 2;
  options.pinning = base::Pinning::kOff;
  options.cache_tokens = 16384;
  options.cache_checkpoints = 64;
  options.max_sequences = 32;
  options.seed = 1;
  return options;
}

std::unique_ptr<engine::Engine> LoadEngine(const engine::EngineOptions& options) {
  auto engine = engine::Engine::Load(options);
  if (!engine.ok()) base::CheckFailed(__FILE__, __LINE__, "Load", engine.status().ToString());
  return std::move(*engine);
}

std::vector<Answer> RunAll(engine::Engine& engine,
                           const std::vector<engine::GenerateRequest>& all) {
  Collector collector(all);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto id = engine.Submit(all[i], collector.SinkOf(i));
    if (!id.ok()) collector.Refused(i, id.status());
  }
  return collector.Wait();
}

std::vector<Answer> RunEach(engine::Engine& engine,
                            const std::vector<engine::GenerateRequest>& all) {
  std::vector<Answer> answers;
  for (const engine::GenerateRequest& request : all) {
    for (Answer& answer : RunAll(engine, {request})) answers.push_back(std::move(answer));
  }
  return answers;
}

std::vector<int32_t> SomeTokens(int64_t count, uint64_t seed) {
  constexpr uint32_t kOrdinaryTokens = 5000;  // below the special ones
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; static_cast<int64_t>(tokens.size()) < count; ++i) {
    for (const uint32_t word : base::Philox4x32({i, 0, 0, 7}, base::PhiloxKeyOf(seed)))
      tokens.push_back(static_cast<int32_t>(word % kOrdinaryTokens));
  }
  tokens.resize(static_cast<size_t>(count));
  return tokens;
}

engine::GenerateRequest WithPrefix(int64_t shared, int64_t own, uint64_t seed, int64_t max_tokens) {
  std::vector<int32_t> prompt = SomeTokens(shared, 4);
  const std::vector<int32_t> rest = SomeTokens(own, seed);
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  engine::GenerateRequest r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  r.sampling.temperature = 0;
  r.sampling.ignore_eos = true;
  r.sampling.logprobs = 20;
  return r;
}

}  // namespace thalweg::tests
