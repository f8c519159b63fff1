#include "tools/bench/rank_steps.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "engine/parts.h"
#include "sched/ranked.h"
#include "tools/bench/clock.h"

namespace thalweg::tools::bench {
namespace {

constexpr int64_t kWarmTokens = 4;  // of every sequence, before steps count

// Of the calling thread.
double BusySeconds() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

int64_t MostTokens(const StepsLoad& load) { return load.tokens + kWarmTokens + SlackTokens(load); }

engine::EngineOptions Sized(engine::EngineOptions options, const StepsLoad& load) {
  options.pinning = base::Pinning::kOff;
  options.max_sequences = load.sequences;
  options.max_rows = PromptRows(load);
  options.cache_tokens = load.sequences * (load.prompt + MostTokens(load) + 2 * 64);
  options.cache_checkpoints = 0;
  options.prefix_reuse = false;
  options.overlap = 0;
  return options;
}

// What is under way: who has how many tokens, and what steps took since all decode.
class Steps {
 public:
  Steps(engine::Parts* parts, const StepsLoad& load)
      : parts_(parts), load_(load), scheduler_(parts->scheduler) {
    run_.tokens.resize(static_cast<size_t>(load.sequences));
  }

  Status Submit() {
    const int64_t vocab = parts_->checkpoint->config().vocab_size;
    for (int64_t i = 0; i < load_.sequences; ++i) {
      sched::Request request;
      request.sequence = static_cast<uint64_t>(i) + 1;
      request.prompt = MadeUpPrompt(load_.prompt, i, vocab);
      request.max_tokens = MostTokens(load_);
      request.sampling.temperature = 0;
      request.sampling.seed = 1;
      request.may_reuse = false;
      TW_TRY(scheduler_.Submit(std::move(request)));
    }
    return {};
  }

  Status Run() {
    while (static_cast<int64_t>(run_.steps.size()) < load_.tokens) {
      if (!scheduler_.NextPlan(&plan_)) return base::Internal("nothing can run");
      const bool counts = Fewest() >= kWarmTokens;
      if (counts && plan_.RowCount() != load_.sequences)
        return base::Internal("a step that counts has other rows than one of each sequence");
      const double worked = WorkedSeconds();
      result_.Clear();
      const double busy = BusySeconds();
      const auto begin = std::chrono::steady_clock::now();
      parts_->executor->Execute(plan_, &result_);
      const double seconds = SecondsSince(begin);
      const double busy_seconds = BusySeconds() - busy;
      TW_TRY(result_.status);
      if (counts)
        run_.steps.push_back({seconds * 1e6, (WorkedSeconds() - worked) * 1e6, busy_seconds * 1e6});
      Advance();
    }
    if (parts_->rebalancer != nullptr) run_.experts = parts_->rebalancer->metrics();
    return {};
  }

  RankSteps Take() { return std::move(run_); }

 private:
  int64_t Fewest() const {
    size_t fewest = run_.tokens.front().size();
    for (const auto& one : run_.tokens) fewest = std::min(fewest, one.size());
    return static_cast<int64_t>(fewest);
  }
  double WorkedSeconds() const {
    return parts_->rebalancer == nullptr ? 0 : parts_->rebalancer->metrics().worked_seconds;
  }
  void Advance() {
    events_.clear();
    scheduler_.Advance(result_, &events_);
    for (const sched::Event& event : events_)
      if (event.kind == sched::Event::Kind::kToken)
        run_.tokens[static_cast<size_t>(event.sequence - 1)].push_back(event.token->token);
  }
  engine::Parts* parts_;
  const StepsLoad load_;
  sched::RankedScheduler scheduler_;
  step::StepPlan plan_;
  step::StepResult result_;
  std::vector<sched::Event> events_;
  RankSteps run_;
};

}  // namespace

int64_t PromptRows(const StepsLoad& load) { return std::max<int64_t>(512, load.sequences); }

// A step brings no less than half its rows of prompts, where those that decode already take the
// other half; a prompt may end in every one.
int64_t SlackTokens(const StepsLoad& load) {
  return 16 + load.sequences + 2 * load.sequences * load.prompt / PromptRows(load);
}

std::vector<int32_t> MadeUpPrompt(int64_t tokens, int64_t number, int64_t vocab) {
  std::vector<int32_t> ids;
  const auto most = static_cast<uint32_t>(std::min<int64_t>(vocab, 4096));
  for (int64_t i = 0; i < tokens; ++i) {
    const base::PhiloxCounter at = {static_cast<uint32_t>(i), static_cast<uint32_t>(number), 0, 0};
    ids.push_back(static_cast<int32_t>(base::Philox4x32(at, {31, 0})[0] % most));
  }
  return ids;
}

Result<RankSteps> RunRankSteps(engine::EngineOptions options, const StepsLoad& load) {
  TW_ASSIGN(engine::Parts parts, engine::LoadParts(Sized(std::move(options), load), {}));
  Steps steps(&parts, load);
  TW_TRY(steps.Submit());
  TW_TRY(steps.Run());
  return steps.Take();
}

CountsFile::CountsFile() {
  static std::atomic<int> made = 0;
  path_ = (std::filesystem::temp_directory_path() /
           fmt::format("thalweg-bench-counts-{}-{}.json", getpid(), ++made))
              .string();
}

CountsFile::~CountsFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::vector<TimedStep> LeastOfRuns(const std::vector<RankSteps>& runs) {
  std::vector<TimedStep> least = runs.front().steps;
  for (const RankSteps& run : runs) {
    TW_CHECK_EQ(run.steps.size(), least.size());
    for (size_t i = 0; i < least.size(); ++i) {
      const double busy = std::min(least[i].busy_us, run.steps[i].busy_us);
      if (run.steps[i].us < least[i].us) least[i] = run.steps[i];
      least[i].busy_us = busy;
    }
  }
  return least;
}

double MedianUs(const std::vector<TimedStep>& steps) {
  std::vector<double> us;
  for (const TimedStep& step : steps) us.push_back(step.us);
  return MiddleOf(std::move(us));
}

}  // namespace thalweg::tools::bench
