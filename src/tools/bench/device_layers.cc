#include "tools/bench/device_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

#include "base/rng.h"
#include "tools/bench/clock.h"
#include "tools/bench/drafts.h"
#include "tools/bench/step_cost.h"
#include "tools/bench/synthetic.h"
#include "tools/bench/trace.h"

namespace thalweg::tools::bench {
namespace {

using checkpoint::Config;
using kvpool::SequenceId;

constexpr int64_t kWarmSteps = 4;
constexpr int64_t kCountedSteps = 3;
constexpr int64_t kTracedSteps = 3;
constexpr int kPrefills = 3;
constexpr int kHeads = 20;
constexpr int64_t kMostLayers = 40;
constexpr int64_t kSpareBytes = int64_t{4} << 30;  // pieces of chunks, the driver's own

using Note = std::function<void(const std::string&)>;

struct Ceilings {
  double copy_gb_s = 0;
  double bf16_gflop_s = 0;

  double ShareOf(const Cost& cost, double seconds) const {
    return std::max(cost.bytes / copy_gb_s, cost.flops / bf16_gflop_s) / seconds / 1e9;
  }
};

struct Rig {
  const Config& config;
  const kernels::Ops& ops;
  const LayersBenchOptions& options;
  const Ceilings& ceilings;
  OpTrace& trace;
  model::Model& model;
  const kernels::Matrix& head;
  const BF16* norm;
  const Note& note;

  int layers() const { return static_cast<int>(config.num_hidden_layers); }
  int64_t Launches() const { return ops.gauges->launches(model.stream()); }
};

// Of a sequence.
int64_t StepsOf(const LayersBenchOptions& options) {
  return kWarmSteps + kCountedSteps + kTracedSteps + 5 * options.steps;
}

std::vector<int32_t> Tokens(const Config& config, int64_t count, int64_t stream) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    const base::PhiloxCounter at{static_cast<uint32_t>(i), static_cast<uint32_t>(stream), 0, 0};
    tokens.push_back(static_cast<int32_t>(base::Philox4x32(at, {23, 0})[0] %
                                          static_cast<uint32_t>(SyntheticTokens(config))));
  }
  return tokens;
}

// The chunks of a decode step: one row of each sequence.
struct StepChunks {
  StepChunks(const Rig& rig, const std::vector<SequenceId>& sequences, int64_t step,
             model::LogitRows logits)
      : tokens(Tokens(rig.config, static_cast<int64_t>(sequences.size()), step)) {
    for (size_t i = 0; i < sequences.size(); ++i)
      chunks.push_back({.sequence = sequences[i],
                        .tokens = {&tokens[i], 1},
                        .logits = logits,
                        .draft_context = false});
  }
  std::vector<int32_t> tokens;
  std::vector<model::Chunk> chunks;
};

// One decode step without logits.
Status Step(const Rig& rig, const std::vector<SequenceId>& sequences, int64_t step) {
  const StepChunks step_chunks(rig, sequences, step, model::LogitRows::kNone);
  model::StepOutput output;
  return rig.model.Step(step_chunks.chunks, &output);
}

struct Pace {
  double seconds = 0;   // of a step
  double idle = 0;      // share of the time in which the device had none
  double launches = 0;  // of kernels in a step
};

// Steps as an engine runs them: the next one is launched while one runs. With `choose` a token is
// drawn for every sequence, on the device.
Result<Pace> RunSteps(const Rig& rig, const std::vector<SequenceId>& sequences, int64_t first,
                      bool choose) {
  const auto step_seconds = [&] { return rig.ops.gauges->step_seconds(rig.model.stream()); };
  const kernels::StepSeconds before = step_seconds();
  const int64_t launched = rig.Launches();
  model::StepOutput output;
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < rig.options.steps; ++i) {
    StepChunks next(rig, sequences, first + i,
                    choose ? model::LogitRows::kLast : model::LogitRows::kNone);
    for (size_t s = 0; choose && s < sequences.size(); ++s) {
      next.chunks[s].choose = {
          .seed = s, .position = i, .temperature = 1, .slot = static_cast<int32_t>(s)};
    }
    TW_TRY(rig.model.Launch(next.chunks));
    rig.model.Choose({});
    if (i > 0) TW_TRY(rig.model.Collect(&output));
  }
  TW_TRY(rig.model.Collect(&output));
  const double seconds = SecondsSince(begin);
  const kernels::StepSeconds after = step_seconds();
  const double busy = after.busy - before.busy, idle = after.idle - before.idle;
  const auto steps = static_cast<double>(rig.options.steps);
  return Pace{.seconds = seconds / steps,
              .idle = idle / (busy + idle),
              .launches = static_cast<double>(rig.Launches() - launched) / steps};
}

// What `layers` read and compute, given the experts that the traced steps read.
Cost LayersCost(const Rig& rig, const StepRows& rows, int layers, int64_t traced_steps) {
  Cost cost;
  for (int layer = 0; layer < layers; ++layer) {
    const double experts =
        static_cast<double>(rig.trace.experts_read(layer)) / static_cast<double>(traced_steps);
    cost = cost + LayerCost(rig.config, layer, rows, experts);
  }
  return cost;
}

double MeanExperts(const Rig& rig, int64_t traced_steps) {
  double sum = 0;
  for (int layer = 0; layer < rig.layers(); ++layer)
    sum += static_cast<double>(rig.trace.experts_read(layer));
  return sum / static_cast<double>(traced_steps * rig.layers());
}

// Seconds of collapse and head over some rows, of many in a row.
double HeadSeconds(const Rig& rig, int64_t rows) {
  const Config& c = rig.config;
  const tensor::Stream stream = rig.model.stream();
  Memory memory(*rig.ops.memory, stream);
  const BF16* streams = memory.ActivationBF16(rows * c.hc_mult * c.hidden_size);
  const float* mix = memory.Uniform(rows * c.hc_mult, 0.1f, 0.9f);
  auto* normed = memory.Take<BF16>(rows * c.hidden_size);
  auto* logits = memory.Take<float>(rows * c.vocab_size);
  const auto run = [&] {
    rig.ops.collapse({.stream = stream,
                      .rows = rows,
                      .streams_n = c.hc_mult,
                      .hidden = c.hidden_size,
                      .streams = streams,
                      .pre_mix = mix,
                      .norm_weight = rig.norm,
                      .norm_eps = c.rms_norm_eps,
                      .normed = normed});
    const kernels::Projection head{.weight = rig.head, .out_f32 = logits};
    rig.ops.linear({.stream = stream,
                    .rows = rows,
                    .in = c.hidden_size,
                    .x = normed,
                    .projections = {&head, 1}});
  };
  run();
  TW_CHECK(rig.ops.memory->synchronize(stream).ok());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kHeads; ++i) run();
  TW_CHECK(rig.ops.memory->synchronize(stream).ok());
  return SecondsSince(begin) / kHeads;
}

// What runs in a recording is not seen: traced steps are none.
class Traced {
 public:
  Traced(const Rig& rig, OpTrace::Mode mode) : rig_(rig) {
    rig.trace.Clear();
    rig.trace.SetMode(mode);
    rig.model.SetGraphs(false);
  }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;
  ~Traced() {
    rig_.trace.SetMode(OpTrace::Mode::kOff);
    rig_.model.SetGraphs(rig_.options.graphs);
  }

 private:
  const Rig& rig_;
};

// Steps in which every op is waited for: where the time goes, launches and waits included.
Status AddOpFigures(const Rig& rig, const std::vector<SequenceId>& sequences,
                    std::vector<ModelFigure>* figures) {
  {
    const Traced traced(rig, OpTrace::Mode::kWait);
    for (int64_t i = 0; i < kTracedSteps; ++i) TW_TRY(Step(rig, sequences, 3000 + i));
  }
  std::map<std::string, double> ops;
  for (const auto& [key, seconds] : rig.trace.seconds()) ops[key.second] += seconds / kTracedSteps;
  const auto batch = static_cast<int64_t>(sequences.size());
  AddOpFigures(ops, batch,
               {.phase = "op",
                .layers = rig.config.num_hidden_layers,
                .batch = batch,
                .context = rig.options.context},
               figures);
  return {};
}

Status AddDecode(const Rig& rig, int64_t batch, std::vector<ModelFigure>* figures) {
  std::vector<SequenceId> sequences;
  const int64_t steps = StepsOf(rig.options) + RoomForDrafts(rig.config, rig.options.steps);
  for (int64_t i = 0; i < batch; ++i) {
    TW_ASSIGN(const SequenceId id, OpenFilled(rig.model, rig.options.context, steps + 1));
    sequences.push_back(id);
  }
  for (int64_t i = 0; i < kWarmSteps; ++i) TW_TRY(Step(rig, sequences, i));
  {
    const Traced traced(rig, OpTrace::Mode::kCount);
    for (int64_t i = 0; i < kCountedSteps; ++i) TW_TRY(Step(rig, sequences, 1000 + i));
  }
  const StepRows rows{batch, rig.options.context, true};
  const Cost layers = LayersCost(rig, rows, rig.layers(), kCountedSteps);
  rig.note(fmt::format("batch {}: {:.1f} distinct experts a layer", batch,
                       MeanExperts(rig, kCountedSteps)));
  TW_TRY(RunSteps(rig, sequences, 2000, false).status());  // recordings are made
  TW_ASSIGN(const Pace bare, RunSteps(rig, sequences, 2500, false));
  TW_TRY(RunSteps(rig, sequences, 4000, true).status());
  TW_ASSIGN(const Pace whole, RunSteps(rig, sequences, 4500, true));
  rig.model.SetGraphs(false);
  TW_ASSIGN(const Pace eager, RunSteps(rig, sequences, 5000, false));
  rig.model.SetGraphs(rig.options.graphs);
  rig.note(fmt::format(
      "batch {}: {:.3f} ms a step without graphs; idle between steps: layers {:.2f} %, with head "
      "and choice {:.2f} %, without graphs {:.2f} %",
      batch, eager.seconds * 1e3, bare.idle * 100, whole.idle * 100, eager.idle * 100));
  const double head = HeadSeconds(rig, batch);
  const auto add = [&](const char* phase, int64_t count, double time, const Cost& cost) {
    figures->push_back({.phase = phase,
                        .layers = count,
                        .batch = batch,
                        .context = rig.options.context,
                        .tokens_per_s = static_cast<double>(batch) / time,
                        .ms_per_step = time * 1e3,
                        .share = rig.ceilings.ShareOf(cost, time)});
  };
  add("decode layers", rig.layers(), bare.seconds, layers);
  figures->back().launches = bare.launches / rig.layers();
  add("decode head", 0, head, HeadCost(rig.config, batch));
  add("decode", rig.layers(), whole.seconds, layers + HeadCost(rig.config, batch));
  figures->back().launches = whole.launches / rig.layers();
  if (rig.options.per_op) TW_TRY(AddOpFigures(rig, sequences, figures));
  TW_TRY(AddDraftedDecode(rig.model, sequences, rig.options, whole.seconds, rig.note, figures));
  for (const SequenceId id : sequences) rig.model.pool().Close(id);
  return {};
}

Result<double> TimePrefill(const Rig& rig, const std::vector<int32_t>& tokens) {
  TW_ASSIGN(const SequenceId id, rig.model.pool().Open());
  const model::Chunk chunk{.sequence = id,
                           .tokens = tokens,
                           .decoder_from = static_cast<int64_t>(tokens.size()),
                           .logits = model::LogitRows::kNone};
  model::StepOutput output;
  const auto begin = std::chrono::steady_clock::now();
  TW_TRY(rig.model.Step({&chunk, 1}, &output));
  const double seconds = SecondsSince(begin);
  rig.model.pool().Close(id);
  return seconds;
}

// Encoder layers alone: the decoder runs none of the rows.
Status AddPrefill(const Rig& rig, std::vector<ModelFigure>* figures) {
  const int encoder = rig.config.DecoderBegin();
  const int64_t rows = rig.options.prompt;
  if (rows == 0 || encoder == 0) return {};
  const std::vector<int32_t> tokens = Tokens(rig.config, rows, 9000);
  rig.trace.Clear();
  rig.trace.SetMode(OpTrace::Mode::kCount);
  TW_TRY(TimePrefill(rig, tokens).status());
  const Cost cost = LayersCost(rig, {rows, 0, false}, encoder, 1);
  rig.trace.SetMode(OpTrace::Mode::kOff);
  double best_s = 1e30;
  const int64_t launched = rig.Launches();
  for (int i = 0; i < kPrefills; ++i) {
    TW_ASSIGN(const double seconds, TimePrefill(rig, tokens));
    best_s = std::min(best_s, seconds);
  }
  figures->push_back({.phase = "prefill encoder",
                      .layers = encoder,
                      .batch = 1,
                      .context = rows,
                      .tokens_per_s = static_cast<double>(rows) / best_s,
                      .ms_per_step = best_s * 1e3,
                      .share = rig.ceilings.ShareOf(cost, best_s),
                      .launches = static_cast<double>(rig.Launches() - launched) /
                                  static_cast<double>(kPrefills * encoder)});
  return {};
}

Status AddPrefillOps(const Rig& rig, std::vector<ModelFigure>* figures) {
  if (!rig.options.per_op || rig.options.prompt == 0) return {};
  rig.trace.Clear();
  rig.trace.SetMode(OpTrace::Mode::kWait);
  TW_TRY(TimePrefill(rig, Tokens(rig.config, rig.options.prompt, 9000)).status());
  rig.trace.SetMode(OpTrace::Mode::kOff);
  std::map<std::string, double> ops;
  for (const auto& [key, seconds] : rig.trace.seconds()) ops[key.second] += seconds;
  AddOpFigures(ops, rig.options.prompt,
               {.phase = "pre", .layers = rig.config.DecoderBegin(), .context = rig.options.prompt},
               figures);
  return {};
}

model::ModelOptions OptionsFor(const Config& base, const LayersBenchOptions& options,
                               const kernels::Ops& ops, const base::ThreadTeam& team) {
  const int64_t batch = *std::max_element(options.batches.begin(), options.batches.end());
  const int64_t block = options.acceptance > 0 ? base.dspark_block_size : 0;
  const int64_t steps = StepsOf(options) + RoomForDrafts(base, options.steps);
  model::ModelOptions out;
  out.ops = &ops;
  out.team = &team;
  out.graphs = options.graphs;
  out.max_rows = std::max(batch * (1 + block), options.prompt);
  out.max_sequences = batch;
  out.max_tokens = std::max(batch * (options.context + steps + 64), options.prompt);
  return out;
}

// The most layers with all experts, or as many of either as were asked for.
Result<SyntheticPlan> ChoosePlan(const Config& base, const LayersBenchOptions& options,
                                 const model::ModelOptions& model_options) {
  const int64_t free =
      options.memory_bytes > 0 ? options.memory_bytes : model_options.ops->memory->free_bytes();
  const int64_t experts = options.experts > 0 ? options.experts : base.n_routed_experts;
  const int64_t most = options.layers > 0 ? options.layers : kMostLayers;
  for (int64_t layers = most;; --layers) {
    TW_ASSIGN(const SyntheticPlan any,
              PlanSynthetic(base, layers, experts, std::numeric_limits<int64_t>::max() / 2,
                            options.acceptance > 0));
    const model::MemoryPlan state = model::PlanMemory(any.config, model_options);
    Result<SyntheticPlan> plan =
        PlanSynthetic(base, layers, experts,
                      free - kSpareBytes - state.cache_blocks - state.sequence_slots -
                          state.workspace - state.device_work,
                      options.acceptance > 0);
    if (plan.ok() || options.layers > 0 || layers == 1) return plan;
  }
}

}  // namespace

Result<std::vector<ModelFigure>> BenchDeviceLayers(const Config& base, const kernels::Ops& ops,
                                                   const base::ThreadTeam& team,
                                                   const LayersBenchOptions& options,
                                                   const Note& note) {
  TW_CHECK(ops.gauges != nullptr);
  OpTrace trace(ops, base.vocab_size);
  trace.SetMode(OpTrace::Mode::kOff);
  const model::ModelOptions model_options = OptionsFor(base, options, trace.ops(), team);
  TW_ASSIGN(const SyntheticPlan plan, ChoosePlan(base, options, model_options));
  const Config& c = plan.config;
  const tensor::Stream stream{.team = &team};
  const Ceilings ceilings{ops.gauges->copy_gb_s(stream), ops.gauges->bf16_gflop_s(stream)};
  note(
      fmt::format("{} layers ({} of the encoder) with {} experts each, {:.1f} GB of weights; copy "
                  "{:.0f} GB/s, BF16 {:.0f} TFLOP/s",
                  c.num_hidden_layers, c.DecoderBegin(), c.n_routed_experts,
                  static_cast<double>(plan.weight_bytes) / 1e9, ceilings.copy_gb_s,
                  ceilings.bf16_gflop_s / 1e3));
  Memory memory(*ops.memory, stream);
  model::Weights weights = MakeSyntheticWeights(c, ops, stream, &memory);
  TW_TRY(ops.memory->synchronize(stream));
  const kernels::Matrix head = weights.head;
  const BF16* norm = weights.norm;
  TW_ASSIGN(const std::unique_ptr<model::Model> model,
            model::Model::FromWeights(c, std::move(weights), model_options));
  const Rig rig{c, ops, options, ceilings, trace, *model, head, norm, note};
  std::vector<ModelFigure> figures;
  for (const int64_t batch : options.batches) TW_TRY(AddDecode(rig, batch, &figures));
  TW_TRY(AddPrefill(rig, &figures));
  TW_TRY(AddPrefillOps(rig, &figures));
  return figures;
}

}  // namespace thalweg::tools::bench
