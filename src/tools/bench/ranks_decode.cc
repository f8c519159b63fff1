#include "tools/bench/ranks_decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "tools/bench/clock.h"
#include "tools/bench/kernel.h"
#include "tools/bench/rank_steps.h"
#include "tools/bench/shapes.h"

namespace thalweg::tools::bench {
namespace {

using base::Json;
using engine::Engine;
using engine::EngineOptions;

constexpr int kRounds = 3;
constexpr int64_t kMostRankBatch = 4096;
constexpr int64_t kFirstTokens = 4;  // of every sequence, before the clock starts
constexpr double kScalingBar = 0.9;

struct Load {
  int64_t batch = 8;
  int64_t prompt = 64;
  int64_t tokens = 128;
};

// Counts tokens as they come, and keeps them.
class Answers {
 public:
  explicit Answers(int64_t count) : tokens_(static_cast<size_t>(count)) {}

  engine::OutputSink SinkOf(size_t i) {
    return [this, i](const engine::Output& output) {
      const std::scoped_lock lock(mutex_);
      for (const engine::TokenOutput& token : output.tokens) tokens_[i].push_back(token.id);
      if (output.finish != engine::FinishReason::kNone) ++ended_;
      if (!output.status.ok()) status_ = output.status;
      more_.notify_all();
    };
  }
  // Until every sequence has so many tokens, or one of them failed.
  Status WaitFor(int64_t count) {
    std::unique_lock lock(mutex_);
    more_.wait(lock, [&] { return !status_.ok() || Fewest() >= count; });
    return status_;
  }
  void WaitForEnd() {
    std::unique_lock lock(mutex_);
    more_.wait(lock, [&] { return ended_ == tokens_.size(); });
  }
  const std::vector<std::vector<int32_t>>& tokens() const { return tokens_; }

 private:
  int64_t Fewest() const {
    size_t fewest = tokens_.front().size();
    for (const auto& one : tokens_) fewest = std::min(fewest, one.size());
    return static_cast<int64_t>(fewest);
  }

  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<std::vector<int32_t>> tokens_;
  size_t ended_ = 0;
  Status status_;
};

StepsLoad StepsOf(const Load& load) {
  return {.sequences = load.batch, .prompt = load.prompt, .tokens = load.tokens};
}

// Nobody ends before the clock stops: steps would have fewer rows then.
int64_t MostTokens(const Load& load) {
  return load.tokens + kFirstTokens + SlackTokens(StepsOf(load));
}

engine::GenerateRequest RequestOf(const Load& load, int64_t index, int64_t vocab) {
  engine::GenerateRequest request;
  request.prompt = MadeUpPrompt(load.prompt, index, vocab);
  request.max_tokens = MostTokens(load);
  request.sampling.ignore_eos = true;
  request.sampling.temperature = 0;
  request.prefix_reuse = false;
  return request;
}

EngineOptions OptionsFor(const EngineOptions& base, const RankSetup& setup, const Load& load) {
  EngineOptions options = base;
  options.ranks = setup.ranks;
  options.threads = static_cast<int>(setup.threads);
  options.pinning = base::Pinning::kOff;
  options.max_sequences = load.batch;
  options.max_rows = PromptRows(StepsOf(load));
  options.cache_tokens = load.batch * (load.prompt + MostTokens(load) + 2 * 64);
  options.cache_checkpoints = 0;
  options.rebalance_window = 0;
  if (setup.ranks == 1) {
    options.expert_spare = 0;
    options.expert_placement.clear();
  }
  return options;
}

// One engine, its decode steps timed from the moment at which all sequences decode.
struct Run {
  double ms_per_step = 0;
  double execute_ms = 0;
  std::vector<std::vector<int32_t>> tokens = {};
};

Result<Run> RunOnce(const EngineOptions& options, const Load& load) {
  TW_ASSIGN(const std::unique_ptr<Engine> engine, Engine::Load(options));
  Answers answers(load.batch);
  for (int64_t i = 0; i < load.batch; ++i)
    TW_TRY(engine
               ->Submit(RequestOf(load, i, engine->config()->vocab_size),
                        answers.SinkOf(static_cast<size_t>(i)))
               .status());
  TW_TRY(answers.WaitFor(kFirstTokens));
  const engine::Metrics before = engine->metrics();
  const auto begin = std::chrono::steady_clock::now();
  TW_TRY(answers.WaitFor(load.tokens));
  const double seconds = SecondsSince(begin);
  const engine::Metrics after = engine->metrics();
  answers.WaitForEnd();
  const auto steps = static_cast<double>(std::max<uint64_t>(1, after.steps - before.steps));
  return Run{.ms_per_step = seconds * 1e3 / steps,
             .execute_ms = (after.execute_seconds - before.execute_seconds) * 1e3 / steps,
             .tokens = answers.tokens()};
}

void Note(const Run& run, const Load& load, DecodeRankFigure* figure) {
  if (figure->ms_per_step > 0 && figure->ms_per_step < run.ms_per_step) return;
  figure->ms_per_step = run.ms_per_step;
  figure->execute_ms = run.execute_ms;
  figure->tokens_per_s = static_cast<double>(load.batch) * 1e3 / run.ms_per_step;
}

// In turns, so that a machine that is busy for a while is so for all.
Status TimeAll(const EngineOptions& base, const Load& load, int64_t repeats,
               RanksDecodeReport* report) {
  const CountsFile counts;  // places experts of the second round and of later ones
  std::vector<std::vector<int32_t>> expected;
  for (int round = 0; round < kRounds; ++round) {
    for (DecodeRankFigure& figure : report->figures) {
      EngineOptions options = OptionsFor(base, figure.setup, load);
      if (figure.setup.ranks > 1) options.expert_counts = counts.path();
      TW_ASSIGN(const Run run, RunOnce(options, load));
      if (expected.empty()) expected = run.tokens;
      report->same_tokens = report->same_tokens && run.tokens == expected;
      Note(run, load, &figure);
    }
  }
  if (base.rebalance_window == 0) return {};
  EngineOptions options = OptionsFor(base, report->figures.back().setup, load);
  options.rebalance_window = base.rebalance_window;
  TW_ASSIGN(report->moves, MeasureMoves(options, StepsOf(load), repeats));
  report->same_tokens = report->same_tokens && report->moves->same_tokens;
  return {};
}

const char* Verdict(bool good) { return good ? "met" : "MISSED"; }

Json ToJson(const DecodeRankFigure& f) {
  return {{"ranks", f.setup.ranks},
          {"threads", f.setup.threads},
          {"ms_per_step", f.ms_per_step},
          {"execute_ms", f.execute_ms},
          {"tokens_per_s", f.tokens_per_s}};
}

std::string Row(const DecodeRankFigure& f) {
  return fmt::format("{:>6} {:>8} {:>12.3f} {:>12.3f} {:>12.1f}\n", f.setup.ranks, f.setup.threads,
                     f.ms_per_step, f.execute_ms, f.tokens_per_s);
}

Result<Load> LoadFrom(const base::OptionValues& values) {
  Load load;
  TW_ASSIGN(const std::vector<int64_t> batches,
            ParseCounts(values.Text("batch"), "batch", kMostRankBatch));
  if (batches.size() != 1) return base::InvalidArgument("bench ranks-decode takes one --batch");
  load.batch = values.Has("batch") ? batches.front() : load.batch;
  load.prompt = values.OptionalInteger("prompt").value_or(load.prompt);
  load.tokens = std::max<int64_t>(2 * kFirstTokens, values.Integer("tokens"));
  return load;
}

}  // namespace

std::string ToTable(const RanksDecodeReport& report) {
  std::string table = fmt::format(
      "{} sequences, about {} tokens each\n{:>6} {:>8} {:>12} {:>12} "
      "{:>12}\n",
      report.batch, report.context, "ranks", "threads", "step ms", "execute ms", "tok/s");
  for (const DecodeRankFigure& figure : report.figures) table += Row(figure);
  const double share = report.RankScaling() / report.ThreadScaling();
  table += fmt::format(
      "scaling: {:.2f} by ranks, {:.2f} by threads: {:.2f} of it (at least {}: {})\ntokens: {}\n",
      report.RankScaling(), report.ThreadScaling(), share, kScalingBar,
      Verdict(share >= kScalingBar), report.same_tokens ? "the same" : "DIFFER");
  table += ToTable(report.predictions);
  if (report.moves) table += ToTable(*report.moves);
  return table;
}

Json ToJson(const RanksDecodeReport& report) {
  Json json = {{"batch", report.batch},
               {"context", report.context},
               {"setups", Json::array()},
               {"rank_scaling", report.RankScaling()},
               {"thread_scaling", report.ThreadScaling()},
               {"same_tokens", report.same_tokens}};
  for (const DecodeRankFigure& figure : report.figures) json["setups"].push_back(ToJson(figure));
  json["predictions"] = ToJson(report.predictions);
  if (report.moves) json["moves"] = ToJson(*report.moves);
  return json;
}

Status BenchRanksDecodeCommand(const base::OptionValues& values) {
  if (values.Flag("validate")) return ValidateRanksCommand(values);
  TW_ASSIGN(const EngineOptions base, EngineOptions::From(values));
  TW_ASSIGN(const Load load, LoadFrom(values));
  const int64_t ranks = std::max<int64_t>(2, base.ranks);
  if (load.batch % ranks != 0)
    return base::InvalidArgument(
        fmt::format("--batch {} over {} ranks: give each as many", load.batch, ranks));
  RanksDecodeReport report{.batch = load.batch, .context = load.prompt + load.tokens / 2};
  for (const RankSetup& setup : {RankSetup{1, 1}, RankSetup{1, ranks}, RankSetup{ranks, ranks}})
    report.figures.push_back({.setup = setup});
  const int64_t repeats = values.Integer("repeats");
  TW_TRY(TimeAll(base, load, repeats, &report));
  TW_ASSIGN(report.predictions,
            Validate(base, {.cases = {{1, load.batch}, {ranks, load.batch / ranks}},
                            .prompt = load.prompt,
                            .tokens = load.tokens,
                            .repeats = repeats}));
  fmt::print("{}\n", values.Flag("json") ? ToJson(report).dump(2) : ToTable(report));
  return report.same_tokens ? Status() : base::Internal("the tokens differ");
}

}  // namespace thalweg::tools::bench
