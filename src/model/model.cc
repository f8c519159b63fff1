// Loading, checking of requests, and the forward of one step as a story.
#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/expected.h"
#include "checkpoint/token_map.h"
#include "model/packing.h"
#include "model/replay.h"
#include "model/run.h"
#include "model/upload.h"

namespace thalweg::model {
namespace {

using checkpoint::Config;

constexpr int64_t kBlockTokens = 64;

kvpool::Geometry MakeGeometry(const Config& c, const ModelOptions& options) {
  kvpool::Geometry g;
  g.block_tokens = kBlockTokens;
  for (const int64_t owner : c.kv_source_layer_ids) {
    g.owners.push_back({.ratio = c.compress_ratios[static_cast<size_t>(owner)],
                        .main_width = c.head_dim,
                        .index_width = c.index_head_dim});
  }
  g.window = c.sliding_window;
  g.rollback_tokens = RollbackTokens(c);
  g.window_layers = c.num_hidden_layers + c.num_nextn_predict_layers;
  g.encoder_layers = c.DecoderBegin();
  g.window_width = c.head_dim;
  g.history_tokens = c.HasEngram() ? c.engram_max_ngram_size : 1;
  g.main_format = options.main_format;
  g.index_format = options.index_format;
  g.window_format = options.window_format;
  return g;
}

int64_t CacheBlocks(const Config& c, const ModelOptions& options) {
  const int64_t tokens = options.max_tokens > 0 ? options.max_tokens : c.max_position_embeddings;
  const int64_t blocks = base::CeilDiv(tokens, kBlockTokens);
  // The last block of every sequence may be half empty; who gives blocks from outside knows that.
  return options.blocks_from_outside ? blocks : blocks + options.max_sequences;
}

std::vector<int> OwnerOfLayer(const Config& c, const std::vector<checkpoint::LayerPlan>& plans) {
  std::vector<int> out;
  for (const checkpoint::LayerPlan& plan : plans) {
    const auto& owners = c.kv_source_layer_ids;
    const auto at = std::find(owners.begin(), owners.end(), plan.kv_owner);
    out.push_back(at == owners.end() ? -1 : static_cast<int>(at - owners.begin()));
  }
  return out;
}

MemoryPlan PlanState(const Config& config, const ModelOptions& options) {
  const kvpool::Geometry g = MakeGeometry(config, options);
  MemoryPlan plan;
  plan.cache_blocks = CacheBlocks(config, options) * g.BlockBytes();
  plan.sequence_slots = options.max_sequences * g.SlotBytes();
  plan.checkpoints = options.checkpoints * g.SlotBytes();
  plan.workspace = WorkspaceBytes(config, options.max_rows, g.WindowRowBytes());
  return plan;
}

int64_t StateBytes(const Config& config, const ModelOptions& options) {
  const MemoryPlan plan = PlanState(config, options);
  return plan.cache_blocks + plan.sequence_slots + plan.checkpoints + plan.workspace;
}

// Everything that follows from the config; no weights yet.
ModelParts PlanParts(const Config& config, const ModelOptions& options) {
  ModelParts parts;
  parts.config = config;
  parts.options = options;
  parts.plans = checkpoint::PlanLayers(parts.config);
  parts.owner_of_layer = OwnerOfLayer(parts.config, parts.plans);
  parts.frequencies = MakeRopeFrequencies(parts.config);
  return parts;
}

Result<ModelParts> MakeParts(const checkpoint::Checkpoint& checkpoint, const ModelOptions& options,
                             void* queue) {
  ModelParts parts = PlanParts(checkpoint.config(), options);
  TW_ASSIGN(parts.weights, BindWeights(checkpoint));
  const int64_t others = StateBytes(parts.config, options);
  if (options.ops->memory->host) {
    TW_ASSIGN(parts.packed, PackWeights(options, others, &parts.weights));
  } else {
    const tensor::Stream stream{.team = options.team, .device = queue};
    TW_ASSIGN(parts.uploaded, UploadWeights(parts.config, options, stream, others, &parts.weights));
  }
  // Nobody reads the stored form again.
  if (parts.packed.bytes() + parts.uploaded.bytes() > 0) checkpoint.GiveBackPages();
  if (parts.config.HasEngram()) {
    TW_ASSIGN(parts.tables, checkpoint::BuildEngramTables(parts.config));
    TW_ASSIGN(const checkpoint::TokenMap map,
              checkpoint::LoadTokenMap(checkpoint.dir(), parts.config));
    parts.token_map = map.ids;
  }
  return parts;
}

Status CheckRows(const Config& c, bool draft, const ModelOptions& options) {
  TW_CHECK(options.ops != nullptr && options.team != nullptr);
  const int64_t block = draft ? c.dspark_block_size : 1;
  if (options.max_rows >= block * options.max_sequences && options.max_rows >= 1) return {};
  return base::InvalidArgument(
      fmt::format("{} rows in one step are too few for {} sequences with {} rows each",
                  options.max_rows, options.max_sequences, block));
}

}  // namespace

MemoryPlan PlanMemory(const Config& config, const ModelOptions& options) {
  MemoryPlan plan = PlanState(config, options);
  for (const checkpoint::ExpectedTensor& tensor : checkpoint::ExpectedTensors(config)) {
    if (tensor.category != checkpoint::Category::kVision) plan.weights_mapped += tensor.bytes();
  }
  if (options.ops == nullptr) return plan;
  if (!options.ops->memory->host) {
    plan.packed_weights = UploadedBytes(config, *options.ops);
  } else if (options.repack != Repack::kNever) {
    plan.packed_weights = PackedBytes(config, *options.ops, true);
  }
  return plan;
}

struct Model::State {
  State(ModelParts model_parts, void* device_queue, kvpool::Geometry geometry)
      : parts(std::move(model_parts)),
        queue(device_queue),
        pool(geometry, {.blocks = CacheBlocks(parts.config, parts.options),
                        .sequences = parts.options.max_sequences,
                        .checkpoints = parts.options.checkpoints,
                        .blocks_from_outside = parts.options.blocks_from_outside,
                        .memory = parts.options.ops->memory,
                        .stream = {.team = parts.options.team, .device = queue}}),
        workspace(parts.config, parts.options.max_rows, geometry.WindowRowBytes(),
                  *parts.options.ops->memory),
        logits(*parts.options.ops->memory) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { parts.options.ops->memory->close_queue(queue); }

  Run MakeRun(Probe* probe) { return {parts, pool, workspace, lists, logits, queue, probe}; }

  Status CheckIds(std::span<const int32_t> tokens) const;
  Status CheckChunk(const Chunk& chunk) const;
  Status CheckChunks(std::span<const Chunk> chunks);
  Status Prepare(std::span<const Chunk> chunks);
  void Forward(Run& run);
  void Head(Run& run, StepOutput* output);

  ModelParts parts;
  void* queue;
  kvpool::Pool pool;
  Workspace workspace;
  StepLists lists;
  LogitBuffer logits;
};

Status Model::State::CheckIds(std::span<const int32_t> tokens) const {
  const auto mapped = static_cast<int64_t>(parts.token_map.size());
  const int64_t limit =
      mapped == 0 ? parts.config.vocab_size : std::min(parts.config.vocab_size, mapped);
  for (const int32_t id : tokens) {
    if (id < 0 || id >= limit) {
      return base::InvalidArgument(
          fmt::format("token id {} is outside the vocabulary of {}", id, limit));
    }
  }
  return {};
}

Status Model::State::CheckChunk(const Chunk& chunk) const {
  const Config& c = parts.config;
  const int64_t start = pool.length(chunk.sequence);
  const auto count = static_cast<int64_t>(chunk.tokens.size());
  if (count == 0) return base::InvalidArgument("a chunk without tokens");
  if (!chunk.image.empty() && chunk.image.size() != chunk.tokens.size()) {
    return base::InvalidArgument("image marks must match the tokens in number");
  }
  TW_TRY(CheckIds(chunk.tokens));
  if (start + count > c.max_position_embeddings) {
    return base::OutOfRange(fmt::format("{} tokens exceed the context of {}", start + count,
                                        c.max_position_embeddings));
  }
  const int64_t first_logits = chunk.logits == LogitRows::kAll ? start : start + count - 1;
  if (chunk.logits != LogitRows::kNone && chunk.decoder_from > first_logits) {
    return base::InvalidArgument(fmt::format(
        "logits of position {} were asked for, but the decoder starts at {}: use full replay",
        first_logits, chunk.decoder_from));
  }
  return {};
}

Status Model::State::CheckChunks(std::span<const Chunk> chunks) {
  int64_t rows = 0;
  lists.seen.assign(static_cast<size_t>(parts.options.max_sequences), 0);
  for (const Chunk& chunk : chunks) {
    TW_TRY(CheckChunk(chunk));
    uint8_t& seen = lists.seen[static_cast<size_t>(chunk.sequence)];
    if (seen != 0) return base::InvalidArgument("a sequence appears twice in one step");
    seen = 1;
    rows += static_cast<int64_t>(chunk.tokens.size());
  }
  if (rows == 0) return base::InvalidArgument("a step without rows");
  if (rows > parts.options.max_rows) {
    return base::InvalidArgument(
        fmt::format("{} rows in one step, the limit is {}", rows, parts.options.max_rows));
  }
  return {};
}

// Reserves cache for every chunk, or for none, and notes where the decoder's windows begin.
Status Model::State::Prepare(std::span<const Chunk> chunks) {
  const auto end_of = [&](const Chunk& chunk) {
    return pool.length(chunk.sequence) + static_cast<int64_t>(chunk.tokens.size());
  };
  int64_t missing = 0;
  for (const Chunk& chunk : chunks) missing += pool.MissingBlocks(chunk.sequence, end_of(chunk));
  if (missing > pool.free_blocks()) {
    return base::ResourceExhausted(
        fmt::format("the cache has {} free blocks of {} tokens, this step needs {} more",
                    pool.free_blocks(), pool.geometry().block_tokens, missing));
  }
  for (const Chunk& chunk : chunks) TW_TRY(pool.Reserve(chunk.sequence, end_of(chunk)));
  for (const Chunk& chunk : chunks) {
    const int64_t start = pool.length(chunk.sequence);
    const int64_t end = start + static_cast<int64_t>(chunk.tokens.size());
    if (chunk.decoder_from > start)
      pool.set_decoder_floor(chunk.sequence, std::min(chunk.decoder_from, end));
  }
  return {};
}

void Model::State::Forward(Run& run) {
  const Config& c = run.config();
  HashEngramRows(run);
  run.ops().embed({.stream = run.stream(),
                   .rows = run.rows(),
                   .streams_n = c.hc_mult,
                   .hidden = c.hidden_size,
                   .ids = run.batch.ids.data(),
                   .table = run.parts.weights.embed,
                   .streams = run.ws.streams,
                   .pre_mix = run.ws.pre_mix});
  for (int layer = 0; layer < c.num_hidden_layers && run.rows() > 0; ++layer) RunLayer(run, layer);
}

// Logits of the rows asked for. The rows are moved together first, so the head runs on nothing
// else.
void Model::State::Head(Run& run, StepOutput* output) {
  const Config& c = run.config();
  std::vector<int64_t>& wanted = run.lists.wanted;
  wanted.clear();
  for (const SequenceRows& s : run.batch.sequences) {
    if (s.logits == LogitRows::kNone || s.rows == 0) continue;
    const int64_t first = s.logits == LogitRows::kAll ? 0 : s.rows - 1;
    for (int64_t i = first; i < s.rows; ++i) wanted.push_back(s.first_row + i);
  }
  run.ws.Compact(wanted, c, run.ops(), run.stream());
  output->rows = static_cast<int64_t>(wanted.size());
  float* made = run.logits.Take(output->rows * c.vocab_size, &output->logits);
  if (wanted.empty()) return;
  run.ops().collapse({.stream = run.stream(),
                      .rows = output->rows,
                      .streams_n = c.hc_mult,
                      .hidden = c.hidden_size,
                      .streams = run.ws.streams,
                      .pre_mix = run.ws.pre_mix,
                      .norm_weight = run.parts.weights.norm,
                      .norm_eps = c.rms_norm_eps,
                      .normed = run.ws.normed});
  const kernels::Projection head{.weight = run.parts.weights.head, .out_f32 = made};
  run.ops().linear({.stream = run.stream(),
                    .rows = output->rows,
                    .in = c.hidden_size,
                    .x = run.ws.normed,
                    .projections = {&head, 1}});
  Observe(run, static_cast<int>(c.num_hidden_layers), point::kLogits, made,
          {output->rows, c.vocab_size});
  run.logits.Fetch(run.stream(), &output->logits);
}

Result<std::unique_ptr<Model>> Model::Load(const checkpoint::Checkpoint& checkpoint,
                                           const ModelOptions& options) {
  TW_TRY(CheckRows(checkpoint.config(), checkpoint.filter().draft, options));
  void* queue = options.ops->memory->open_queue();
  Result<ModelParts> parts = MakeParts(checkpoint, options, queue);
  if (!parts.ok()) {
    options.ops->memory->close_queue(queue);
    return parts.status();
  }
  const kvpool::Geometry geometry = MakeGeometry(parts->config, options);
  return std::unique_ptr<Model>(
      new Model(std::make_unique<State>(std::move(*parts), queue, geometry)));
}

Result<std::unique_ptr<Model>> Model::FromWeights(const Config& config, Weights weights,
                                                  const ModelOptions& options) {
  TW_CHECK(!config.HasEngram());
  TW_CHECK(options.ops->memory->host);
  TW_CHECK_EQ(weights.layers.size(), checkpoint::PlanLayers(config).size());
  TW_TRY(CheckRows(config, weights.draft.has_value(), options));
  ModelParts parts = PlanParts(config, options);
  parts.weights = std::move(weights);
  const kvpool::Geometry geometry = MakeGeometry(parts.config, options);
  return std::unique_ptr<Model>(new Model(
      std::make_unique<State>(std::move(parts), options.ops->memory->open_queue(), geometry)));
}

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;

const Config& Model::config() const { return state_->parts.config; }
const ModelOptions& Model::options() const { return state_->parts.options; }
kvpool::Pool& Model::pool() { return state_->pool; }
int64_t Model::packed_bytes() const { return state_->parts.packed.bytes(); }

Status Model::Begin(kvpool::SequenceId id, const kvpool::Beginning& beginning,
                    std::span<const int32_t> before, std::span<const uint8_t> image) {
  State& s = *state_;
  TW_CHECK_EQ(static_cast<int64_t>(before.size()), beginning.length);
  TW_TRY(s.CheckIds(before));
  s.pool.Begin(id, beginning);
  if (s.parts.token_map.empty()) return {};
  const int64_t rows = s.pool.geometry().HistoryRows();
  for (int64_t p = std::max<int64_t>(0, beginning.length - rows); p < beginning.length; ++p) {
    const auto i = static_cast<size_t>(p);
    const bool dead = !image.empty() && image[i] != 0;
    s.pool.History(id, p) = dead ? kDeadToken : s.parts.token_map[static_cast<size_t>(before[i])];
  }
  return {};
}

bool Model::has_draft() const { return state_->parts.weights.draft.has_value(); }

Status Model::Step(std::span<const Chunk> chunks, StepOutput* output, Probe* probe) {
  State& s = *state_;
  TW_TRY(s.CheckChunks(chunks));
  TW_TRY(s.Prepare(chunks));
  FillBatch(chunks, s.pool, s.parts.frequencies, &s.lists.batch);
  Run run = s.MakeRun(probe);
  s.Forward(run);
  if (run.rows() > 0 && has_draft()) {
    const auto width =
        static_cast<int64_t>(config().dspark_target_layer_ids.size()) * config().hidden_size;
    Observe(run, static_cast<int>(config().num_hidden_layers), point::kTaps, run.ws.taps,
            {run.rows(), width});
    InsertDraftContext(run);
  }
  s.Head(run, output);
  TW_TRY(run.memory().synchronize(run.stream()));
  for (const Chunk& chunk : chunks) {
    s.pool.Commit(chunk.sequence,
                  s.pool.length(chunk.sequence) + static_cast<int64_t>(chunk.tokens.size()));
  }
  return {};
}

Status Model::Draft(std::span<const DraftRequest> requests, DraftOutput* output, Probe* probe) {
  State& s = *state_;
  if (!has_draft()) return base::Unsupported("this checkpoint was loaded without its draft module");
  if (static_cast<int64_t>(requests.size()) * config().dspark_block_size > options().max_rows) {
    return base::InvalidArgument(
        fmt::format("{} draft blocks exceed {} rows", requests.size(), options().max_rows));
  }
  for (const DraftRequest& request : requests) {
    if (s.pool.length(request.sequence) == 0)
      return base::FailedPrecondition("a draft needs at least one token before");
    if (request.token < 0 || request.token >= config().vocab_size) {
      return base::InvalidArgument(
          fmt::format("token id {} is outside the vocabulary", request.token));
    }
  }
  output->tokens.clear();
  output->confidence.clear();
  output->logits.clear();
  if (requests.empty()) return {};
  FillDraftBatch(requests, s.pool, s.parts, &s.lists);
  Run run = s.MakeRun(probe);
  DraftBlock(run, requests, output);
  return run.memory().synchronize(run.stream());
}

}  // namespace thalweg::model
