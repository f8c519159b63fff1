#include "tools/bench/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "base/machine.h"
#include "base/rng.h"
#include "tools/bench/ceilings.h"
#include "tools/bench/clock.h"
#include "tools/bench/device_layers.h"
#include "tools/bench/drafts.h"
#include "tools/bench/step_cost.h"
#include "tools/bench/synthetic.h"
#include "tools/bench/trace.h"

namespace thalweg::tools::bench {
namespace {

using checkpoint::Config;
using kvpool::SequenceId;

constexpr int64_t kWarmSteps = 2;
constexpr int kPrefills = 3;

struct Rig {
  const Config& config;  // of the synthetic model
  const Config& base;
  const LayersBenchOptions& options;
  const ReadGauge& gauge;
  double peak_gflop_s = 0;
  OpTrace& trace;
  model::Model& model;
  const std::function<void(const std::string&)>& note;
};

double ShareOf(const Cost& cost, double seconds, double read_gb_s, double gflop_s) {
  return std::max(cost.bytes / read_gb_s, cost.flops / gflop_s) / seconds / 1e9;
}

// Random tokens: the experts of a step should not repeat those of the step before.
int32_t Token(const Rig& rig, int64_t i) {
  const uint32_t word = base::Philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, {23, 0})[0];
  return static_cast<int32_t>(word % static_cast<uint32_t>(SyntheticTokens(rig.config)));
}

// One decode step, and what it had to do.
struct StepFigure {
  double seconds = 0;
  double head_seconds = 0;
  Cost layers = {};
  double experts = 0;    // distinct ones of a layer, the mean
  double read_gb_s = 0;  // what memory gave right before or after, the larger
};

Cost StepCost(const Rig& rig, const StepRows& rows, int first_layer, int end_layer) {
  Cost cost;
  for (int layer = first_layer; layer < end_layer; ++layer) {
    cost = cost +
           LayerCost(rig.config, layer, rows, static_cast<double>(rig.trace.experts_read(layer)));
  }
  return cost;
}

Result<StepFigure> Step(const Rig& rig, const std::vector<SequenceId>& sequences, int64_t step,
                        model::LogitRows logits) {
  std::vector<int32_t> tokens;
  std::vector<model::Chunk> chunks;
  for (size_t i = 0; i < sequences.size(); ++i) {
    tokens.push_back(Token(rig, step * 4099 + static_cast<int64_t>(i)));
  }
  for (size_t i = 0; i < sequences.size(); ++i) {
    chunks.push_back({.sequence = sequences[i],
                      .tokens = {&tokens[i], 1},
                      .logits = logits,
                      .draft_context = false});
  }
  const int64_t position = rig.model.pool().length(sequences.front());
  model::StepOutput output;
  rig.trace.Clear();
  const auto begin = std::chrono::steady_clock::now();
  TW_TRY(rig.model.Step(chunks, &output));
  StepFigure figure{.seconds = SecondsSince(begin)};
  for (const float logit : output.logits) {
    if (!std::isfinite(logit)) return base::Internal("a synthetic step gave a logit of no number");
  }
  figure.head_seconds = rig.trace.LayerSeconds(-1);
  figure.layers = StepCost(rig, {static_cast<int64_t>(sequences.size()), position, true}, 0,
                           static_cast<int>(rig.config.num_hidden_layers));
  const auto layers = static_cast<int>(rig.config.num_hidden_layers);
  for (int layer = 0; layer < layers; ++layer) {
    figure.experts += static_cast<double>(rig.trace.experts_read(layer)) / layers;
  }
  return figure;
}

ModelFigure DecodeFigure(const Rig& rig, std::string phase, int64_t batch, double seconds,
                         const Cost& cost, double read_gb_s) {
  const bool head = phase == "decode head";
  return {.phase = std::move(phase),
          .layers = head ? 0 : rig.config.num_hidden_layers,
          .batch = batch,
          .context = rig.options.context,
          .tokens_per_s = static_cast<double>(batch) / seconds,
          .ms_per_step = seconds * 1e3,
          .share = ShareOf(cost, seconds, read_gb_s, rig.peak_gflop_s)};
}

// What a layer of the release most resembles among the synthetic ones: its mode and ratio, or at
// least its mode, or any.
int LayerLike(const std::vector<checkpoint::LayerPlan>& plans,
              const checkpoint::LayerPlan& wanted) {
  int best = 0, best_score = -1;
  for (size_t i = 0; i < plans.size(); ++i) {
    const int score = (plans[i].mode == wanted.mode ? 2 : 0) + (plans[i].ratio == wanted.ratio);
    if (score > best_score) best_score = score, best = static_cast<int>(i);
  }
  return best;
}

using OpSeconds = std::map<OpTrace::Key, double>;

// The least that each op of each layer took in any of some steps.
Result<OpSeconds> FastestOps(const Rig& rig, const std::vector<SequenceId>& sequences) {
  OpSeconds fastest;
  for (int64_t i = 0; i < rig.options.steps; ++i) {
    TW_TRY(Step(rig, sequences, 1000 + i, model::LogitRows::kNone).status());
    for (const auto& [key, seconds] : rig.trace.seconds()) {
      const auto at = fastest.emplace(key, seconds).first;
      at->second = std::min(at->second, seconds);
    }
  }
  return fastest;
}

// Seconds of each op in a step of the base config's layers.
std::map<std::string, double> OpsOfBaseStep(const Rig& rig, const OpSeconds& fastest) {
  std::map<std::string, double> ops;
  const auto plans = checkpoint::PlanLayers(rig.config);
  for (const checkpoint::LayerPlan& plan : checkpoint::PlanLayers(rig.base)) {
    if (plan.draft) continue;
    const int layer = LayerLike(plans, plan);
    for (const auto& [key, seconds] : fastest) {
      if (key.first == layer) ops[key.second] += seconds;
    }
  }
  return ops;
}

Status AddOpFigures(const Rig& rig, const std::vector<SequenceId>& sequences,
                    std::vector<ModelFigure>* figures) {
  TW_ASSIGN(const OpSeconds fastest, FastestOps(rig, sequences));
  const std::map<std::string, double> ops = OpsOfBaseStep(rig, fastest);
  const auto batch = static_cast<int64_t>(sequences.size());
  AddOpFigures(ops, batch,
               {.phase = "op",
                .layers = rig.base.num_hidden_layers,
                .batch = batch,
                .context = rig.options.context},
               figures);
  return {};
}

// One of some steps: the one whose share of the limit is the median. Each has a ceiling of its own:
// what a machine's memory gives can double between one step and the next.
Result<StepFigure> TypicalStep(const Rig& rig, const std::vector<SequenceId>& sequences,
                               int64_t first, model::LogitRows logits) {
  std::vector<StepFigure> steps;
  double before = rig.gauge.GbPerSecond();
  for (int64_t i = 0; i < kWarmSteps + rig.options.steps; ++i) {
    TW_ASSIGN(StepFigure step, Step(rig, sequences, first + i, logits));
    const double after = rig.gauge.GbPerSecond();
    step.read_gb_s = std::max(before, after);
    before = after;
    if (i >= kWarmSteps) steps.push_back(step);
  }
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(
      steps.begin(), middle, steps.end(), [](const StepFigure& a, const StepFigure& b) {
        return a.layers.bytes / a.read_gb_s / a.seconds < b.layers.bytes / b.read_gb_s / b.seconds;
      });
  return *middle;
}

Status AddDecode(const Rig& rig, int64_t batch, std::vector<ModelFigure>* figures) {
  std::vector<SequenceId> sequences;
  const int64_t more =
      3 * (kWarmSteps + rig.options.steps) + 1 + RoomForDrafts(rig.config, rig.options.steps);
  for (int64_t i = 0; i < batch; ++i) {
    TW_ASSIGN(const SequenceId id, OpenFilled(rig.model, rig.options.context, more));
    sequences.push_back(id);
  }
  TW_ASSIGN(const StepFigure bare, TypicalStep(rig, sequences, 0, model::LogitRows::kNone));
  TW_ASSIGN(const StepFigure whole, TypicalStep(rig, sequences, 500, model::LogitRows::kLast));
  const Cost head = HeadCost(rig.config, batch);
  rig.note(fmt::format("batch {}: {:.1f} distinct experts a layer, memory read {:.1f} GB/s", batch,
                       bare.experts, bare.read_gb_s));
  const auto add = [&](const char* phase, double seconds, const Cost& cost, double read) {
    figures->push_back(DecodeFigure(rig, phase, batch, seconds, cost, read));
  };
  add("decode layers", bare.seconds, bare.layers, bare.read_gb_s);
  add("decode head", whole.head_seconds, head, whole.read_gb_s);
  add("decode", whole.seconds, whole.layers + head, whole.read_gb_s);
  if (rig.options.per_op) TW_TRY(AddOpFigures(rig, sequences, figures));
  TW_TRY(AddDraftedDecode(rig.model, sequences, rig.options, whole.seconds, rig.note, figures));
  for (const SequenceId id : sequences) rig.model.pool().Close(id);
  return {};
}

// Encoder layers alone: the decoder runs none of the rows.
Status AddPrefill(const Rig& rig, std::vector<ModelFigure>* figures) {
  const int encoder = rig.config.DecoderBegin();
  const int64_t rows = rig.options.prompt;
  if (rows == 0 || encoder == 0) return {};
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < rows; ++i) tokens.push_back(Token(rig, i));
  double best_s = 1e30;
  for (int i = 0; i < kPrefills; ++i) {
    TW_ASSIGN(const SequenceId id, rig.model.pool().Open());
    const model::Chunk chunk{
        .sequence = id, .tokens = tokens, .decoder_from = rows, .logits = model::LogitRows::kNone};
    model::StepOutput output;
    rig.trace.Clear();
    const auto begin = std::chrono::steady_clock::now();
    TW_TRY(rig.model.Step({&chunk, 1}, &output));
    best_s = std::min(best_s, SecondsSince(begin));
    rig.model.pool().Close(id);
  }
  const Cost cost = StepCost(rig, {rows, 0, false}, 0, encoder);
  figures->push_back({.phase = "prefill encoder",
                      .layers = encoder,
                      .batch = 1,
                      .context = rows,
                      .tokens_per_s = static_cast<double>(rows) / best_s,
                      .ms_per_step = best_s * 1e3,
                      .share = ShareOf(cost, best_s, rig.gauge.GbPerSecond(), rig.peak_gflop_s)});
  return {};
}

Result<SyntheticPlan> ChoosePlan(const Config& base, const LayersBenchOptions& options) {
  const int64_t free = base::FreeMemoryBytes();
  const int64_t memory = options.memory_bytes > 0 ? options.memory_bytes : free / 5 * 3;
  const bool draft = options.acceptance > 0;
  if (options.layers > 0)
    return PlanSynthetic(base, options.layers, options.experts, memory, draft);
  const int64_t fair = std::min(kFairExperts, base.n_routed_experts);
  for (const int64_t layers : {8, 4, 2}) {
    const auto plan = PlanSynthetic(base, layers, options.experts, memory, draft);
    if (plan.ok() && plan->config.n_routed_experts >= fair) return plan;
  }
  return PlanSynthetic(base, 1, options.experts, memory, draft);
}

model::ModelOptions OptionsFor(const LayersBenchOptions& options, const Config& config,
                               const OpTrace& trace, const base::ThreadTeam& team) {
  const int64_t batch = *std::max_element(options.batches.begin(), options.batches.end());
  const int64_t each = options.context + 3 * (kWarmSteps + options.steps) + 64 +
                       RoomForDrafts(config, options.steps);
  model::ModelOptions out;
  out.ops = &trace.ops();
  out.team = &team;
  out.max_rows = std::max(batch * (1 + config.dspark_block_size), options.prompt);
  out.max_sequences = batch;
  out.max_tokens = std::max(batch * each, options.prompt);
  return out;
}

// Caches and workspace beside the weights must fit too.
Status CheckState(const SyntheticPlan& plan, const model::ModelOptions& options) {
  const model::MemoryPlan memory = model::PlanMemory(plan.config, options);
  const int64_t state = memory.cache_blocks + memory.sequence_slots + memory.workspace;
  const int64_t free = base::FreeMemoryBytes();
  if (free < 0 || state <= free - plan.weight_bytes) return {};
  return base::ResourceExhausted(
      fmt::format("caches and workspace take {} MiB and weights {}, but {} are free: ask for a "
                  "smaller --batch, --context or --prompt",
                  state >> 20, plan.weight_bytes >> 20, free >> 20));
}

}  // namespace

Result<std::vector<ModelFigure>> BenchLayers(const Config& base, const kernels::Ops& ops,
                                             const base::ThreadTeam& team,
                                             const LayersBenchOptions& options,
                                             const std::function<void(const std::string&)>& note) {
  if (!ops.memory->host) return BenchDeviceLayers(base, ops, team, options, note);
  TW_ASSIGN(const SyntheticPlan plan, ChoosePlan(base, options));
  const Config& c = plan.config;
  note(fmt::format("{} layers ({} of the encoder) with {} experts each, {:.1f} GB of weights",
                   c.num_hidden_layers, c.DecoderBegin(), c.n_routed_experts,
                   static_cast<double>(plan.weight_bytes) / 1e9));
  OpTrace trace(ops, c.vocab_size);
  const model::ModelOptions model_options = OptionsFor(options, c, trace, team);
  TW_TRY(CheckState(plan, model_options));
  Memory memory;
  model::Weights weights = MakeSyntheticWeights(c, ops, {.team = &team}, &memory);
  TW_ASSIGN(const std::unique_ptr<model::Model> model,
            model::Model::FromWeights(c, std::move(weights), model_options));
  const ReadGauge gauge(team, options.gauge_bytes);
  const bool fast = ops.numerics == kernels::Numerics::kFast;
  const double peak = MeasurePeaks(team).Of(fast ? PeakKind::kInt8 : PeakKind::kBf16).gflop_s;
  const Rig rig{c, base, options, gauge, peak, trace, *model, note};
  std::vector<ModelFigure> figures;
  for (const int64_t batch : options.batches) TW_TRY(AddDecode(rig, batch, &figures));
  TW_TRY(AddPrefill(rig, &figures));
  return figures;
}

}  // namespace thalweg::tools::bench
