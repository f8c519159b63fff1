#include "tools/bench/spec_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <span>
#include <string_view>

#include "tools/progress.h"

namespace thalweg::tools::bench {
namespace {

double ProcessSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double ValueOf(const std::vector<Figure>& figures, std::string_view name) {
  const auto at =
      std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.name == name; });
  return at == figures.end() ? 0 : at->value;
}

// The other engine sleeps: what the process uses is this one's.
Result<HalfFigures> RunHalf(engine::Engine& engine, const LoadOptions& options,
                            std::span<const LoadRequest> load) {
  const double before = ProcessSeconds();
  TW_ASSIGN(const std::vector<Figure> figures, BenchServing(engine, options, load));
  const double steps = ValueOf(figures, "steps");
  return HalfFigures{.seconds = ValueOf(figures, "seconds"),
                     .cpu_seconds = ProcessSeconds() - before,
                     .tokens = ValueOf(figures, "output_tokens"),
                     .steps = steps,
                     .rows = steps * ValueOf(figures, "rows_per_step"),
                     .drafted = ValueOf(figures, "drafted"),
                     .accepted = ValueOf(figures, "accepted"),
                     .schedule_seconds = steps * ValueOf(figures, "schedule_us_per_step") * 1e-6};
}

// `count` of the prompts, other ones for each quad.
std::vector<LoadRequest> LoadOf(const std::vector<std::vector<int32_t>>& prompts, int64_t quad,
                                int64_t count, int64_t tokens) {
  std::vector<LoadRequest> load;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(quad * count + i) % prompts.size();
    load.push_back({.prompt = prompts[at], .output_tokens = tokens});
  }
  return load;
}

struct Engines {
  engine::Engine& off;
  engine::Engine& on;
};

// ABBA, and BAAB every other time: what changes evenly while it lasts is in both alike.
Result<Quad> RunQuad(const Engines& engines, const LoadOptions& options,
                     std::span<const LoadRequest> load, int64_t number) {
  Quad quad;
  const bool swapped = number % 2 == 1;
  for (const bool inner : {false, true, true, false}) {
    const bool on = inner != swapped;
    TW_ASSIGN(const HalfFigures half, RunHalf(on ? engines.on : engines.off, options, load));
    (on ? quad.on : quad.off).Add(half);
  }
  return quad;
}

// Answers that end when they like leave a batch half empty at the end of a half: so many for each
// sequence at least. Those of one length end together.
constexpr int64_t kWavesOfEnds = 4;

// Requests of a half, a whole number for each sequence: as many as take so long without drafts.
Result<int64_t> RequestsOfHalf(const Engines& engines, const LoadOptions& options,
                               const std::vector<std::vector<int32_t>>& prompts,
                               const PairOptions& asked) {
  const auto load = LoadOf(prompts, 0, options.requests, asked.tokens);
  TW_TRY(RunHalf(engines.on, options, load).status());
  TW_ASSIGN(const HalfFigures half, RunHalf(engines.off, options, load));
  const auto waves = static_cast<int64_t>(asked.half_seconds / half.seconds + 0.5);
  return options.concurrency * std::max<int64_t>(asked.ignore_ends ? 1 : kWavesOfEnds, waves);
}

Result<SpeedFigures> CompareLoad(const Engines& engines, int64_t batch,
                                 const std::vector<std::vector<int32_t>>& prompts,
                                 const PairOptions& asked) {
  LoadOptions options{.requests = batch, .concurrency = batch, .ignore_eos = asked.ignore_ends};
  TW_ASSIGN(options.requests, RequestsOfHalf(engines, options, prompts, asked));
  std::vector<Quad> quads;
  for (int64_t i = 0; i < asked.pairs; ++i) {
    const auto load = LoadOf(prompts, i, options.requests, asked.tokens);
    TW_ASSIGN(quads.emplace_back(), RunQuad(engines, options, load, i));
  }
  return FiguresOf(quads, batch);
}

}  // namespace

void HalfFigures::Add(const HalfFigures& o) {
  seconds += o.seconds, cpu_seconds += o.cpu_seconds, tokens += o.tokens, steps += o.steps;
  rows += o.rows, drafted += o.drafted, accepted += o.accepted;
  schedule_seconds += o.schedule_seconds;
}

SpeedFigures FiguresOf(const std::vector<Quad>& quads, int64_t batch) {
  std::vector<double> ratios, cpu;
  Quad sum;
  for (const Quad& q : quads) {
    sum.off.Add(q.off);
    sum.on.Add(q.on);
    ratios.push_back(q.on.Rate() / q.off.Rate());
    cpu.push_back(q.on.CpuRate() / q.off.CpuRate());
  }
  const Interval gain = IntervalOf(ratios), cpu_gain = IntervalOf(cpu);
  const double steps = std::max(sum.on.steps, 1.0), off_steps = std::max(sum.off.steps, 1.0);
  return {.batch = batch,
          .off_tok_s = sum.off.Rate(),
          .on_tok_s = sum.on.Rate(),
          .gain = gain.mean,
          .low = gain.low,
          .high = gain.high,
          .cpu_gain = cpu_gain.mean,
          .cpu_low = cpu_gain.low,
          .cpu_high = cpu_gain.high,
          .drafts_a_step = sum.on.drafted / steps,
          .accepted_a_step = sum.on.accepted / steps,
          .off_step = {.ms = 1e3 * sum.off.seconds / off_steps,
                       .tokens = sum.off.tokens / off_steps,
                       .rows = sum.off.rows / off_steps,
                       .schedule_us = 1e6 * sum.off.schedule_seconds / off_steps},
          .on_step = {.ms = 1e3 * sum.on.seconds / steps,
                      .tokens = sum.on.tokens / steps,
                      .rows = sum.on.rows / steps,
                      .schedule_us = 1e6 * sum.on.schedule_seconds / steps}};
}

Result<std::vector<SpeedFigures>> ComparePairs(engine::Engine& off, engine::Engine& on,
                                               const std::vector<std::vector<int32_t>>& prompts,
                                               const PairOptions& options) {
  std::vector<SpeedFigures> speeds;
  Progress progress("comparing", static_cast<int64_t>(options.batches.size()));
  for (const int64_t batch : options.batches) {
    TW_ASSIGN(speeds.emplace_back(), CompareLoad({off, on}, batch, prompts, options));
    progress.Advance(fmt::format("{} sequences", batch));
  }
  return speeds;
}

}  // namespace thalweg::tools::bench
