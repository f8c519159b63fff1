#include "tools/bench/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/machine.h"
#include "base/rng.h"
#include "checkpoint/checkpoint.h"
#include "tools/bench/clock.h"
#include "tools/bench/cost_fit.h"
#include "tools/bench/shapes.h"
#include "tools/bench/synthetic.h"
#include "tools/generate.h"
#include "tools/session.h"

namespace thalweg::tools::bench {
namespace {

using base::Json;
using checkpoint::Config;
using kvpool::SequenceId;

constexpr int64_t kWarmSteps = 2;
constexpr int64_t kTailRows = 140;  // rows that compact replay runs through the decoder
constexpr const char* kExperts = "experts";

// Of one step.
struct StepTimes {
  std::map<std::string, double> ops;  // us, all layers together
  double between_us = 0;              // in which no op ran
  double experts_us = 0;              // of the layers that count
  double decoder_us = 0;              // of layers from the decoder's first on, and the head
  double touched = 0;                 // experts of those layers, added up
  // By layer: us of all other ops, and of experts; how many were touched.
  std::vector<double> layer_us = {}, experts_layer_us = {}, layer_touched = {};
};

double MedianOf(const std::vector<StepTimes>& steps, const auto& of) {
  std::vector<double> values;
  for (const StepTimes& step : steps) values.push_back(of(step));
  return MiddleOf(std::move(values));
}

// How far values lie from each other, as a share of them: the normal deviation that the median
// distance from their median belongs to, so that what was disturbed now and then does not count.
double SpreadOf(const std::vector<double>& values) {
  constexpr double kNormal = 1.4826;
  const double middle = MiddleOf(values);
  if (middle <= 0) return 0;
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return kNormal * MiddleOf(std::move(distances)) / middle;
}

// Of a layer's ops from step to step, the mean of the layers.
double LayerSpread(const std::vector<StepTimes>& steps) {
  double sum = 0;
  const size_t layers = steps.front().layer_us.size();
  for (size_t layer = 0; layer < layers; ++layer) {
    std::vector<double> us;
    for (const StepTimes& step : steps) us.push_back(step.layer_us[layer]);
    sum += SpreadOf(us);
  }
  return sum / static_cast<double>(std::max<size_t>(1, layers));
}

// Layers of decode steps by how many experts they touched, and how often: layers with as many rows
// touch now more of them and now fewer, so that what an expert costs and what a row costs are told
// apart.
class ExpertLayers {
 public:
  void Add(const std::vector<StepTimes>& steps, double entries, double share) {
    for (const StepTimes& step : steps)
      for (size_t layer = 0; layer < step.layer_touched.size(); ++layer)
        if (step.layer_touched[layer] > 0)
          us_[{step.layer_touched[layer], entries}].push_back(step.experts_layer_us[layer] * share);
  }

  // By medians: of as many layers as a median needs, where there are such.
  Json ToJson() const {
    std::vector<ExpertSample> samples;
    double spread = 0, all = 0, most = 1;
    size_t needed = 1;
    for (const auto& [size, us] : us_) needed = std::min(kLayers, std::max(needed, us.size()));
    for (const auto& [size, us] : us_) {
      if (us.size() < needed) continue;
      const auto count = static_cast<double>(us.size());
      samples.push_back({size.first, size.second, MiddleOf(us)});
      spread += count * SpreadOf(us);
      all += count;
      most = std::max(most, size.second);
    }
    const ExpertFit fit = FitExperts(samples);
    const auto line = [&](double rows) { return Json{rows, fit.each_us + fit.row_us * rows}; };
    return {{"fixed_us", fit.fixed_us},
            {"spread", spread / all},
            {"points", Json::array({line(1), line(1 + most)})}};
  }

 private:
  static constexpr size_t kLayers = 5;
  std::map<std::pair<double, double>, std::vector<double>> us_;
};

StepTimes TimesOf(const OpTrace& trace, double seconds, int layers, int decoder) {
  StepTimes times;
  double in_ops = 0;
  times.layer_us.resize(static_cast<size_t>(layers));
  times.experts_layer_us.resize(static_cast<size_t>(layers));
  for (const auto& [key, s] : trace.seconds()) {
    const auto& [layer, op] = key;
    in_ops += s;
    if (op == "head" || layer >= decoder) times.decoder_us += s * 1e6;
    const bool inside = layer >= 0 && layer < layers, counted = op == kExperts && inside;
    (counted ? times.experts_us : times.ops[op]) += s * 1e6;
    if (inside)
      (counted ? times.experts_layer_us : times.layer_us)[static_cast<size_t>(layer)] += s * 1e6;
  }
  for (int layer = 0; layer < layers; ++layer) {
    const auto read = static_cast<double>(trace.experts_read(layer));
    times.touched += read;
    times.layer_touched.push_back(read);
  }
  times.between_us = std::max(0.0, seconds - in_ops) * 1e6;
  return times;
}

// One figure of dense work in a prompt's step: rows, sum of their positions, us.
struct ChunkSample {
  double rows = 0;
  double positions = 0;
  double us = 0;
};

}  // namespace

class CostsMeasurement::Measurement {
 public:
  Measurement(model::Model& model, OpTrace& trace, CostsOptions options)
      : model_(model),
        trace_(trace),
        options_(std::move(options)),
        layers_(static_cast<int>(model.config().num_hidden_layers)),
        encoder_(model.config().DecoderBegin()) {}

  Status Steps() {
    for (const int64_t context : options_.contexts) {
      for (const int64_t batch : options_.batches) TW_TRY(Decode(batch, context));
    }
    return {};
  }

  Status Prompts() {
    if (encoder_ == 0) return {};
    const int64_t far = *std::max_element(options_.contexts.begin(), options_.contexts.end());
    for (const int64_t rows : options_.chunks) {
      for (const int64_t position : {int64_t{0}, far}) TW_TRY(Chunk(rows, position));
    }
    return Tail(far);
  }

  Json ToJson() const {
    Json json = {{"format", "thalweg costs"}, {"version", 1}, {"source", options_.source}};
    OpPoints ops;
    ExpertLayers experts;
    double spread = 0;
    for (const auto& [size, samples] : samples_) {
      const double share = AddStep(samples, size.first, size.second, &ops);
      experts.Add(samples.steps,
                  static_cast<double>(size.first * model_.config().num_experts_per_tok), share);
      spread += LayerSpread(samples.steps) / static_cast<double>(samples_.size());
    }
    json["decode"] = {{"layers", layers_}, {"spread", spread}, {"ops", Json::array()}};
    for (const auto& [op, points] : ops)
      json["decode"]["ops"].push_back({{"op", op}, {"points", points}});
    json["experts"] = experts.ToJson();
    if (!chunks_.empty()) json["prefill"] = PrefillJson();
    return json;
  }

 private:
  using OpPoints = std::map<std::string, std::vector<std::array<double, 3>>>;

  // Of one number of rows and of cached tokens, all rounds.
  struct StepSamples {
    std::vector<StepTimes> steps;
    std::vector<double> whole_us;
  };

  std::vector<int32_t> Tokens(int64_t count, int64_t step) const {
    std::vector<int32_t> ids;
    const auto most = static_cast<uint32_t>(
        std::min(SyntheticTokens(model_.config()), model_.config().vocab_size / 2));
    for (int64_t i = 0; i < count; ++i) {
      const base::PhiloxCounter at = {static_cast<uint32_t>(i), static_cast<uint32_t>(step), 0, 0};
      ids.push_back(static_cast<int32_t>(base::Philox4x32(at, {29, 0})[0] % most));
    }
    return ids;
  }

  Result<double> Seconds(const std::vector<model::Chunk>& chunks) {
    model::StepOutput output;
    const auto begin = std::chrono::steady_clock::now();
    TW_TRY(model_.Step(chunks, &output));
    return SecondsSince(begin);
  }

  Result<StepTimes> Time(const std::vector<model::Chunk>& chunks, int layers) {
    trace_.SetMode(OpTrace::Mode::kTime);
    trace_.Clear();
    TW_ASSIGN(const double seconds, Seconds(chunks));
    return TimesOf(trace_, seconds, layers, encoder_);
  }

  // Nothing of a trace is in it: neither clocks nor the counting of experts.
  Result<double> WholeUs(const std::vector<model::Chunk>& chunks) {
    trace_.SetMode(OpTrace::Mode::kOff);
    TW_ASSIGN(const double seconds, Seconds(chunks));
    return seconds * 1e6;
  }

  Status Decode(int64_t batch, int64_t context) {
    if (options_.beside) TW_TRY(options_.beside(batch, context));
    std::vector<ScopedSequence> sequences;
    for (int64_t i = 0; i < batch; ++i) {
      TW_ASSIGN(const SequenceId id,
                OpenFilled(model_, context, 2 * (kWarmSteps + options_.steps) + 1));
      sequences.push_back(ScopedSequence::Adopt(model_, id));
    }
    StepSamples& samples = samples_[{batch, context}];
    for (int64_t step = 0; step < kWarmSteps + options_.steps; ++step) {
      TW_ASSIGN(StepTimes times, Time(Chunks(sequences, Tokens(batch, 2 * step)), layers_));
      if (step >= kWarmSteps) samples.steps.push_back(std::move(times));
      if (options_.steps_us) continue;
      TW_ASSIGN(const double us, WholeUs(Chunks(sequences, Tokens(batch, 2 * step + 1))));
      if (step >= kWarmSteps) samples.whole_us.push_back(us);
    }
    if (!options_.steps_us) return {};
    TW_ASSIGN(const std::vector<double> whole_us, options_.steps_us(batch, context));
    samples.whole_us.insert(samples.whole_us.end(), whole_us.begin(), whole_us.end());
    return {};
  }

  // One row of each. `tokens` is kept until the next call.
  std::vector<model::Chunk> Chunks(const std::vector<ScopedSequence>& sequences,
                                   std::vector<int32_t> tokens) {
    tokens_ = std::move(tokens);
    std::vector<model::Chunk> chunks;
    for (size_t i = 0; i < sequences.size(); ++i)
      chunks.push_back({.sequence = sequences[i].id(), .tokens = {&tokens_[i], 1}});
    return chunks;
  }

  // The median of each op; what they leave of the whole step is "between". Where they add up to
  // more (steps with a trace are slower), they share the step by their proportions: returned is
  // what is left of each.
  double AddStep(const StepSamples& samples, int64_t batch, int64_t context,
                 OpPoints* points) const {
    std::map<std::string, double> ops;
    for (const auto& one : samples.steps.front().ops) {
      ops[one.first] = MedianOf(samples.steps, [&](const StepTimes& s) {
        const auto at = s.ops.find(one.first);
        return at == s.ops.end() ? 0 : at->second;
      });
    }
    double sum = MedianOf(samples.steps, [](const StepTimes& s) { return s.experts_us; });
    for (const auto& [op, us] : ops) sum += us;
    const double whole_us = MiddleOf(samples.whole_us), share = std::min(1.0, whole_us / sum);
    const auto rows = static_cast<double>(batch), behind = static_cast<double>(context);
    for (const auto& [op, us] : ops) (*points)[op].push_back({rows, behind, us * share});
    (*points)["between"].push_back({rows, behind, std::max(0.0, whole_us - sum)});
    return share;
  }

  // Of one layer.
  ExpertSample ExpertsOf(const std::vector<StepTimes>& steps, int64_t rows, int layers) const {
    std::vector<double> all;
    for (const StepTimes& step : steps) all.push_back(step.touched);
    const double typical = MiddleOf(std::move(all)) / static_cast<double>(layers);
    return {.touched = typical,
            .entries = static_cast<double>(rows * model_.config().num_experts_per_tok),
            .us = typical *
                  MedianOf(steps, [](const StepTimes& s) { return s.experts_us / s.touched; })};
  }

  // Rows of one prompt; decoder_from counts from the first of them.
  Result<std::vector<StepTimes>> Prompt(int64_t rows, int64_t position, int64_t decoder_from) {
    std::vector<StepTimes> steps;
    const int64_t times = std::max<int64_t>(3, options_.steps / 4);
    for (int64_t i = 0; i <= times; ++i) {
      TW_ASSIGN(const SequenceId id, OpenFilled(model_, position, rows + 1));
      const ScopedSequence sequence = ScopedSequence::Adopt(model_, id);
      const std::vector<int32_t> tokens = Tokens(rows, 5000 + i);
      const model::Chunk chunk{
          .sequence = id,
          .tokens = tokens,
          .decoder_from = position + decoder_from,
          .logits = decoder_from < rows ? model::LogitRows::kLast : model::LogitRows::kNone};
      TW_ASSIGN(StepTimes one, Time({chunk}, encoder_));
      if (i > 0) steps.push_back(std::move(one));
    }
    return steps;
  }

  Status Chunk(int64_t rows, int64_t position) {
    TW_ASSIGN(const std::vector<StepTimes> steps, Prompt(rows, position, rows));
    const double dense = MedianOf(steps, [](const StepTimes& s) {
      double sum = s.between_us;
      for (const auto& [op, us] : s.ops) sum += us;
      return sum;
    });
    const auto n = static_cast<double>(rows), at = static_cast<double>(position);
    chunks_.push_back({n, n * at + n * (n - 1) / 2, dense});
    chunk_experts_.push_back(ExpertsOf(steps, rows, encoder_));
    return {};
  }

  Status Tail(int64_t position) {
    const int64_t rows = std::min(kTailRows, options_.chunks.back());
    TW_ASSIGN(const std::vector<StepTimes> steps, Prompt(rows, position, 0));
    tail_us_ = MedianOf(steps, [](const StepTimes& s) { return s.decoder_us; });
    return {};
  }

  // The curve goes through what was measured, less what a call costs whatever it does.
  static Json ExpertsJson(const std::vector<ExpertSample>& samples) {
    const ExpertFit fit = FitExperts(samples);
    Json points = Json::array();
    for (const ExpertSample& s : samples) {
      points.push_back({s.entries / s.touched, std::max(0.0, s.us - fit.fixed_us) / s.touched});
    }
    return {{"fixed_us", fit.fixed_us}, {"points", points}};
  }

  Json PrefillJson() const {
    std::vector<FitSample> samples;
    for (const ChunkSample& c : chunks_) samples.push_back({{1, c.rows, c.positions}, c.us});
    const std::array<double, 3> fit = FitPositive(samples);
    return {
        {"layers", encoder_},    {"fixed_us", fit[0]},  {"row_us", std::max(fit[1], 1e-6)},
        {"position_us", fit[2]}, {"tail_us", tail_us_}, {"experts", ExpertsJson(chunk_experts_)}};
  }

  model::Model& model_;
  OpTrace& trace_;
  const CostsOptions options_;
  int layers_;
  int encoder_;
  std::map<std::pair<int64_t, int64_t>, StepSamples> samples_;  // by rows and cached tokens
  std::vector<ExpertSample> chunk_experts_;                     // of prompts
  std::vector<ChunkSample> chunks_;
  std::vector<int32_t> tokens_;  // of the step under way
  double tail_us_ = 0;
};

CostsMeasurement::CostsMeasurement(model::Model& model, OpTrace& trace, CostsOptions options)
    : measurement_(std::make_unique<Measurement>(model, trace, std::move(options))) {}
CostsMeasurement::~CostsMeasurement() = default;
Status CostsMeasurement::Steps() { return measurement_->Steps(); }
Status CostsMeasurement::Prompts() { return measurement_->Prompts(); }
Json CostsMeasurement::ToJson() const { return measurement_->ToJson(); }

int64_t CostsTokens(const CostsOptions& options) {
  const int64_t batch = *std::max_element(options.batches.begin(), options.batches.end());
  const int64_t context = *std::max_element(options.contexts.begin(), options.contexts.end());
  const int64_t decode = batch * (context + 2 * (kWarmSteps + options.steps) + 64);
  const int64_t prompt = options.chunks.empty() ? 0 : options.chunks.back();
  return std::max(decode, context + prompt + 64);
}

namespace {

constexpr int64_t kMostCostRows = 4096;
constexpr int64_t kMostCostContext = 1 << 20;

Result<CostsOptions> OptionsFrom(const base::OptionValues& values, const std::string& machine) {
  CostsOptions options;
  options.steps = values.Integer("tokens") > 64 ? 16 : values.Integer("tokens");
  TW_ASSIGN(options.batches, ParseCounts(values.Text("batch"), "batch", kMostCostRows));
  const std::string contexts = values.Has("contexts") ? values.Text("contexts") : "1024";
  TW_ASSIGN(options.contexts, ParseCounts(contexts, "contexts", kMostCostContext));
  const int64_t prompt = values.OptionalInteger("prompt").value_or(512);
  options.chunks = {std::max<int64_t>(1, prompt / 8), std::max<int64_t>(1, prompt / 2), prompt};
  options.source = machine;
  return options;
}

std::string Machine(const kernels::Ops& ops, const base::ThreadTeam& team,
                    const std::string& what) {
  return fmt::format("{}; backend {}, {} threads", what, ops.name, team.size());
}

Result<Json> OfSynthetic(const base::OptionValues& values) {
  TW_ASSIGN(const kernels::Ops* ops, OpsFrom(values));
  const base::ThreadTeam team(static_cast<int>(values.Integer("threads")), PinningFrom(values));
  team.PinCaller();
  TW_ASSIGN(const SyntheticPlan plan,
            PlanSynthetic(ReleasedConfig(), std::max<int64_t>(values.Integer("layers"), 2),
                          values.Integer("experts"), base::FreeMemoryBytes() / 2));
  const Config& c = plan.config;
  TW_ASSIGN(const CostsOptions options,
            OptionsFrom(values, Machine(*ops, team,
                                        fmt::format("{} layers of released size, {} experts each",
                                                    c.num_hidden_layers, c.n_routed_experts))));
  OpTrace trace(*ops, c.vocab_size);
  model::ModelOptions model_options;
  model_options.ops = &trace.ops();
  model_options.team = &team;
  model_options.max_sequences = *std::max_element(options.batches.begin(), options.batches.end());
  model_options.max_rows = std::max(model_options.max_sequences, options.chunks.back());
  model_options.max_tokens = CostsTokens(options);
  Memory memory;
  model::Weights weights = MakeSyntheticWeights(c, *ops, {.team = &team}, &memory);
  TW_ASSIGN(const std::unique_ptr<model::Model> model,
            model::Model::FromWeights(c, std::move(weights), model_options));
  return MeasureCosts(*model, trace, options);
}

Result<Json> OfCheckpoint(const base::OptionValues& values) {
  TW_ASSIGN(SessionOptions session_options, SessionOptions::From(values));
  TW_ASSIGN(const kernels::Ops* ops, OpsFrom(values));
  TW_ASSIGN(const auto checkpoint, checkpoint::Checkpoint::Open(session_options.folder));
  TW_ASSIGN(CostsOptions options, OptionsFrom(values, ""));
  OpTrace trace(*ops, checkpoint.config().vocab_size);
  session_options.ops = &trace.ops();
  session_options.max_sequences = *std::max_element(options.batches.begin(), options.batches.end());
  session_options.max_rows = std::max(session_options.max_sequences, options.chunks.back());
  session_options.max_tokens = CostsTokens(options);
  TW_ASSIGN(const Session session, OpenSession(session_options));
  options.source = Machine(*ops, *session.team, session_options.folder.filename().string());
  return MeasureCosts(*session.model, trace, options);
}

}  // namespace

Result<Json> MeasureCosts(model::Model& model, OpTrace& trace, const CostsOptions& options) {
  CostsMeasurement measurement(model, trace, options);
  TW_TRY(measurement.Steps());
  TW_TRY(measurement.Prompts());
  return measurement.ToJson();
}

Status BenchCostsCommand(const base::OptionValues& values) {
  TW_ASSIGN(const kernels::Ops* ops, OpsFrom(values));
  if (!ops->memory->host) {
    return base::Unsupported(
        "bench costs times the ops of a host's backend; of a device, whole steps are known "
        "(bench model), from which a file of costs is written by hand");
  }
  TW_ASSIGN(const Json json, values.Flag("synthetic") ? OfSynthetic(values) : OfCheckpoint(values));
  fmt::print("{}\n", json.dump(1));
  return {};
}

}  // namespace thalweg::tools::bench
