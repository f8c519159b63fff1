#include "tools/bench/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/json.h"
#include "base/rng.h"
#include "tools/bench/ceilings.h"
#include "tools/bench/figures.h"
#include "tools/bench/step_cost.h"
#include "tools/generate.h"

namespace thalweg::tools {
namespace {

double Seconds(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Ids without a meaning, others for each sequence: rows that are alike would choose the same
// experts, and a step of many would cost too little.
std::vector<int32_t> RandomIds(int64_t count, int64_t vocab, int64_t sequence) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    const base::PhiloxCounter at = {static_cast<uint32_t>(i), static_cast<uint32_t>(sequence), 0,
                                    0};
    const uint32_t word = base::Philox4x32(at, {7, 7})[0];
    ids.push_back(static_cast<int32_t>(word % static_cast<uint64_t>(vocab)));
  }
  return ids;
}

constexpr int64_t kDecodeStreams = 1 << 20;  // behind those of prompts

struct Timing {
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

Result<double> TimeDecode(model::Model& model, const std::vector<ScopedSequence>& sequences,
                          int64_t steps) {
  model::StepOutput output;
  std::vector<std::vector<int32_t>> tokens;
  for (size_t s = 0; s < sequences.size(); ++s) {
    tokens.push_back(
        RandomIds(steps, model.config().vocab_size / 2, kDecodeStreams + static_cast<int64_t>(s)));
  }
  std::vector<model::Chunk> chunks;
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < steps; ++step) {
    chunks.clear();
    for (size_t s = 0; s < sequences.size(); ++s) {
      chunks.push_back(
          {.sequence = sequences[s].id(), .tokens = {&tokens[s][static_cast<size_t>(step)], 1}});
    }
    TW_TRY(model.Step(chunks, &output));
  }
  return Seconds(begin);
}

Result<Timing> TimeOnce(model::Model& model, const model::Replay& replay,
                        const BenchModelOptions& options, int64_t batch) {
  const int64_t decoder_from = replay.DecoderFrom(options.prompt_tokens, model.config());
  std::vector<ScopedSequence> sequences;
  model::StepOutput output;
  Timing timing;
  for (int64_t b = 0; b < batch; ++b) {
    TW_ASSIGN(ScopedSequence sequence, ScopedSequence::Open(model));
    const auto prompt = RandomIds(options.prompt_tokens, model.config().vocab_size / 2, b);
    const auto begin = std::chrono::steady_clock::now();
    TW_TRY(Prefill(model, sequence.id(), prompt, decoder_from, &output));
    timing.prefill_seconds += Seconds(begin) / static_cast<double>(batch);
    sequences.push_back(std::move(sequence));
  }
  TW_ASSIGN(timing.decode_seconds, TimeDecode(model, sequences, options.decode_tokens));
  return timing;
}

// What this machine could do at best, and the model that is measured against it.
struct Limits {
  const checkpoint::Config& config;
  double read_gb_s = 0;
  double gflop_s = 0;

  double ShareOf(const bench::Cost& cost, double seconds) const {
    return std::max(cost.bytes / seconds / 1e9 / read_gb_s, cost.flops / seconds / 1e9 / gflop_s);
  }
};

// What the processor or the device that the model runs on can do.
Limits LimitsOf(Session& session) {
  const kernels::Ops& ops = *session.model->options().ops;
  if (ops.gauges != nullptr) {
    const tensor::Stream stream = session.model->stream();
    return {session.config(), ops.gauges->copy_gb_s(stream), ops.gauges->bf16_gflop_s(stream)};
  }
  const bool fast = ops.numerics == kernels::Numerics::kFast;
  const bench::Peaks peaks = bench::MeasurePeaks(*session.team);
  return {session.config(), bench::ReadGauge(*session.team).GbPerSecond(),
          peaks.Of(fast ? bench::PeakKind::kInt8 : bench::PeakKind::kBf16).gflop_s};
}

// Layers below the decoder for every row of the prompt, those above for the rows that replay keeps.
bench::Cost PrefillCost(const checkpoint::Config& c, int64_t prompt, int64_t decoder_from) {
  bench::Cost cost = bench::HeadCost(c, 1);
  for (int layer = 0; layer < c.num_hidden_layers; ++layer) {
    const int64_t first = layer < c.DecoderBegin() ? 0 : std::min(decoder_from, prompt - 1);
    const int64_t rows = prompt - first;
    cost = cost + bench::LayerCost(
                      c, layer, {rows, first, false},
                      bench::ExpectedExperts(c.n_routed_experts, c.num_experts_per_tok, rows));
  }
  return cost;
}

bench::Cost DecodeCost(const checkpoint::Config& c, int64_t batch, int64_t position) {
  bench::Cost cost = bench::HeadCost(c, batch);
  const double experts = bench::ExpectedExperts(c.n_routed_experts, c.num_experts_per_tok, batch);
  for (int layer = 0; layer < c.num_hidden_layers; ++layer) {
    cost = cost + bench::LayerCost(c, layer, {batch, position, true}, experts);
  }
  return cost;
}

// Medians of the repeats, as one prefill and one decode figure.
Status AddFigures(Session& session, const model::Replay& replay, const BenchModelOptions& options,
                  int64_t batch, const Limits& limits, std::vector<bench::ModelFigure>* figures) {
  std::vector<double> prefill_s, step_s;
  for (int i = 0; i <= options.repeats; ++i) {
    TW_ASSIGN(const Timing timing, TimeOnce(*session.model, replay, options, batch));
    if (i == 0) continue;  // the first pass reads the weights in
    prefill_s.push_back(timing.prefill_seconds);
    step_s.push_back(timing.decode_seconds / static_cast<double>(options.decode_tokens));
  }
  const checkpoint::Config& c = limits.config;
  const double prefill = Median(prefill_s), step = Median(step_s);
  const int64_t from = replay.DecoderFrom(options.prompt_tokens, c);
  const int64_t middle = options.prompt_tokens + options.decode_tokens / 2;
  figures->push_back({"prefill", c.num_hidden_layers, 1, options.prompt_tokens,
                      static_cast<double>(options.prompt_tokens) / prefill, prefill * 1e3,
                      limits.ShareOf(PrefillCost(c, options.prompt_tokens, from), prefill)});
  figures->push_back({"decode", c.num_hidden_layers, batch, options.prompt_tokens,
                      static_cast<double>(batch) / step, step * 1e3,
                      limits.ShareOf(DecodeCost(c, batch, middle), step)});
  return {};
}

}  // namespace

Status BenchModel(Session& session, const model::Replay& replay, const BenchModelOptions& options) {
  const Limits limits = LimitsOf(session);
  std::vector<bench::ModelFigure> figures;
  for (const int64_t batch : options.batches) {
    TW_TRY(AddFigures(session, replay, options, batch, limits, &figures));
  }
  if (options.json) {
    fmt::print("{}\n", bench::ToJson(figures).dump(2));
    return {};
  }
  fmt::print("backend {}, {} threads\n{}", session.model->options().ops->name, session.team->size(),
             bench::ToTable(figures));
  return {};
}

}  // namespace thalweg::tools
