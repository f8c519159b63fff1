#include "tests/device/ruled.h"

#include <map>
#include <utility>

namespace thalweg::tests {
namespace {

constexpr int64_t kFulfilled = 17;  // tokens, of sequences that the rule ends

class RuleMasks : public exec::TokenMasks {
 public:
  RuleMasks(uint64_t seed, int64_t vocab)
      : ends_(seed % 2 == 0), vocab_(static_cast<size_t>(vocab)) {}

  Status Begin(std::span<const int32_t> output) override {
    came_ = static_cast<int64_t>(output.size());
    return {};
  }
  Result<exec::NextTokens> Wait() override { return Behind(came_); }
  Result<std::vector<exec::NextTokens>> WaitAlong(std::span<const int32_t> drafts) override {
    std::vector<exec::NextTokens> next = {Behind(came_)};
    for (size_t i = 0; i < drafts.size() && Allows(came_ + static_cast<int64_t>(i), drafts[i]); ++i)
      next.push_back(Behind(came_ + static_cast<int64_t>(i) + 1));
    return next;
  }
  void Accept(std::span<const int32_t> tokens) override {
    for (const int32_t token : tokens) TW_CHECK(Allows(came_++, token));
  }

 private:
  // Anything may come.
  static bool Free(int64_t count) { return count % 5 == 4 && count < kFulfilled; }
  bool Allows(int64_t count, int64_t token) const {
    if (ends_ && count >= kFulfilled) return false;
    return Free(count) || (token + count) % 4 != 0;
  }
  exec::NextTokens Behind(int64_t count) const {
    if (Free(count)) return {};
    std::vector<uint32_t> words((vocab_ + 31) / 32);
    for (size_t t = 0; t < vocab_; ++t)
      words[t / 32] |= uint32_t{Allows(count, static_cast<int64_t>(t))} << (t % 32);
    return {std::make_shared<const std::vector<uint32_t>>(std::move(words)),
            ends_ && count >= kFulfilled};
  }

  bool ends_;
  size_t vocab_;
  int64_t came_ = 0;
};

class RuledExecutor : public exec::Executor {
 public:
  explicit RuledExecutor(std::unique_ptr<exec::ModelExecutor> executor)
      : executor_(std::move(executor)) {
    const int64_t vocab = executor_->model().config().vocab_size;
    executor_->SetTokenMasks([this, vocab](uint64_t sequence) {
      return std::make_shared<RuleMasks>(seeds_.at(sequence), vocab);
    });
  }
  bool Launch(const step::StepPlan& plan) override { return executor_->Launch(With(plan)); }
  bool Done() override { return executor_->Done(); }
  void Execute(const step::StepPlan& plan, step::StepResult* result) override {
    executor_->Execute(With(plan), result);
  }

 private:
  // A sequence is known by its seed, whenever it comes.
  step::StepPlan With(step::StepPlan plan) {
    for (step::SequenceStart& start : plan.starts) {
      seeds_[start.sequence] = start.sampling.seed;
      start.sampling.constrained = start.sampling.seed % 3 == 0;
    }
    return plan;
  }

  std::map<uint64_t, uint64_t> seeds_;
  std::unique_ptr<exec::ModelExecutor> executor_;
};

}  // namespace

std::unique_ptr<exec::Executor> Ruled(std::unique_ptr<exec::ModelExecutor> executor) {
  return std::make_unique<RuledExecutor>(std::move(executor));
}

}  // namespace thalweg::tests
