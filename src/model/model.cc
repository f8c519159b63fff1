// Loading, and what a model is made of.
#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/expected.h"
#include "checkpoint/token_map.h"
#include "model/context_parallel.h"
#include "model/device_plan.h"
#include "model/expert_parallel.h"
#include "model/packing.h"
#include "model/replay.h"
#include "model/state.h"
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

std::vector<int> OwnerOfLayer(const Config& c, const std::vector<checkpoint::LayerPlan>& plans) {
  std::vector<int> out;
  for (const checkpoint::LayerPlan& plan : plans) {
    const auto& owners = c.kv_source_layer_ids;
    const auto at = std::find(owners.begin(), owners.end(), plan.kv_owner);
    out.push_back(at == owners.end() ? -1 : static_cast<int>(at - owners.begin()));
  }
  return out;
}

// Copies of other ranks' sequences.
int64_t ForeignSequences(const ModelOptions& options) {
  return options.context_ranks > 1 ? kContextCopies : 0;
}

MemoryPlan PlanState(const Config& config, const ModelOptions& options) {
  const kvpool::Geometry g = MakeGeometry(config, options);
  MemoryPlan plan;
  plan.cache_blocks = options.context_ranks * CacheBlocks(config, options) * g.BlockBytes();
  plan.sequence_slots = (options.max_sequences + ForeignSequences(options)) * g.SlotBytes();
  plan.checkpoints = options.checkpoints * g.SlotBytes();
  plan.workspace = WorkspaceBytes(config, options.max_rows, g.WindowRowBytes());
  plan.device_work = DeviceWorkBytes(config, options, g, CacheBlocks(config, options));
  return plan;
}

int64_t StateBytes(const Config& config, const ModelOptions& options) {
  const MemoryPlan plan = PlanState(config, options);
  return plan.cache_blocks + plan.sequence_slots + plan.checkpoints + plan.workspace +
         plan.device_work;
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

// Tables and token map in the memory of the backend, which hashes.
EngramConstants UploadEngramConstants(const std::vector<checkpoint::EngramTable>& tables,
                                      const std::vector<int32_t>& token_map,
                                      const ModelOptions& options, void* queue) {
  const tensor::Memory& memory = *options.ops->memory;
  const tensor::Stream stream{.team = options.team, .device = queue};
  std::vector<int64_t> words;
  for (const auto member : {&checkpoint::EngramTable::multipliers, &checkpoint::EngramTable::primes,
                            &checkpoint::EngramTable::offsets}) {
    for (const checkpoint::EngramTable& t : tables)
      words.insert(words.end(), (t.*member).begin(), (t.*member).end());
  }
  const auto word_bytes = static_cast<int64_t>(words.size() * sizeof(int64_t));
  const auto map_bytes = static_cast<int64_t>(token_map.size() * sizeof(int32_t));
  EngramConstants made{.memory = tensor::Buffer(word_bytes + map_bytes, memory)};
  memory.upload(stream, made.memory.data(), words.data(), word_bytes);
  memory.upload(stream, made.memory.data() + word_bytes, token_map.data(), map_bytes);
  const size_t orders = tables.front().multipliers.size() * tables.size();
  const size_t columns = tables.front().primes.size() * tables.size();
  made.multipliers = made.memory.as<uint64_t>();
  made.primes = made.multipliers + orders;
  made.offsets = made.memory.as<int64_t>() + orders + columns;
  made.token_map = reinterpret_cast<const int32_t*>(made.memory.data() + word_bytes);
  return made;
}

Result<ModelParts> MakeParts(const checkpoint::Checkpoint& checkpoint, const ModelOptions& options,
                             void* queue) {
  ModelParts parts = PlanParts(checkpoint.config(), options);
  TW_ASSIGN(parts.weights, BindWeights(checkpoint));
  if (options.expert_parallel != nullptr)
    options.expert_parallel->SetCut(parts.config.DecoderBegin());
  const int64_t others = StateBytes(parts.config, options);
  if (options.ops->memory->host) {
    TW_ASSIGN(parts.packed, PackWeights(options, others, &parts.weights, &parts.expert_store));
  } else {
    const tensor::Stream stream{.team = options.team, .device = queue};
    TW_ASSIGN(parts.uploaded, UploadWeights(parts.config, options, stream, others, &parts.weights,
                                            &parts.expert_store));
  }
  // Nobody reads the stored form again.
  if (parts.packed.bytes() + parts.uploaded.device.bytes() > 0) checkpoint.GiveBackPages();
  if (parts.config.HasEngram()) {
    TW_ASSIGN(parts.tables, checkpoint::BuildEngramTables(parts.config));
    TW_ASSIGN(const checkpoint::TokenMap map,
              checkpoint::LoadTokenMap(checkpoint.dir(), parts.config));
    parts.token_map = map.ids;
    if (options.ops->engram_hash != nullptr)
      parts.engram = UploadEngramConstants(parts.tables, parts.token_map, options, queue);
  }
  return parts;
}

Status CheckGroup(const ModelOptions& options) {
  const ContextParallel* group = options.context_parallel;
  TW_CHECK(group == nullptr || group->size() == options.context_ranks);
  if (group == nullptr) return {};
  if (options.blocks_from_outside) return {};
  return base::Unsupported("the rows of a prompt over several ranks need blocks from outside");
}

Status CheckRows(const Config& c, bool draft, const ModelOptions& options) {
  TW_CHECK(options.ops != nullptr && options.team != nullptr);
  TW_TRY(CheckGroup(options));
  const int64_t block = draft ? c.dspark_block_size : 1;
  if (options.max_rows >= block * options.max_sequences && options.max_rows >= 1) return {};
  return base::InvalidArgument(
      fmt::format("{} rows in one step are too few for {} sequences with {} rows each",
                  options.max_rows, options.max_sequences, block));
}

}  // namespace

int64_t CacheBlocks(const Config& c, const ModelOptions& options) {
  const int64_t tokens = options.max_tokens > 0 ? options.max_tokens : c.max_position_embeddings;
  const int64_t blocks = base::CeilDiv(tokens, kBlockTokens);
  // The last block of every sequence may be half empty; who gives blocks from outside knows that.
  return options.blocks_from_outside ? blocks : blocks + options.max_sequences;
}

// Codes and scales of all tables.
static int64_t EngramTableBytes(const Config& c) {
  int64_t values = 0;
  for (const int64_t rows : c.engram_num_embeddings) values += rows * c.engram_head_dim;
  return values + values / 32;
}

MemoryPlan PlanMemory(const Config& config, const ModelOptions& options) {
  MemoryPlan plan = PlanState(config, options);
  for (const checkpoint::ExpectedTensor& tensor : checkpoint::ExpectedTensors(config)) {
    if (tensor.category != checkpoint::Category::kVision) plan.weights_mapped += tensor.bytes();
  }
  if (options.ops == nullptr) return plan;
  if (!options.ops->memory->host) {
    plan.packed_weights = UploadedBytes(config, *options.ops, options.expert_blocks);
    if (options.ops->memory->steps != nullptr) plan.movable_tables = EngramTableBytes(config);
  } else if (options.repack != Repack::kNever) {
    plan.packed_weights = PackedBytes(config, *options.ops, true, options.expert_blocks);
  }
  return plan;
}

// Rows of steps are filled up where steps are recorded: on a device whose rank goes through the
// layers without others.
static bool FillsUp(const ModelOptions& options) {
  return options.ops->memory->steps != nullptr && options.context_ranks == 1;
}

Model::State::State(ModelParts model_parts, OwnedQueue device_queue, kvpool::Geometry geometry)
    : parts(std::move(model_parts)),
      queue(std::move(device_queue)),
      pool(geometry, {.blocks = CacheBlocks(parts.config, parts.options),
                      .sequences = parts.options.max_sequences,
                      .checkpoints = parts.options.checkpoints,
                      .blocks_from_outside = parts.options.blocks_from_outside,
                      .padding = FillsUp(parts.options),
                      .foreign_sequences = ForeignSequences(parts.options),
                      .foreign_blocks = (parts.options.context_ranks - 1) *
                                        CacheBlocks(parts.config, parts.options),
                      .memory = parts.options.ops->memory,
                      .stream = stream()}),
      workspace(parts.config, parts.options.max_rows, geometry.WindowRowBytes(), memory()),
      results(parts.options, parts.config, stream()),
      graphs(memory(), stream()),
      graphs_on(parts.options.graphs && FillsUp(parts.options)) {
  SelectBlocks();
}

// Rows of a draft see all of their block.
void Model::State::SelectBlocks() {
  const int64_t block = parts.config.dspark_block_size;
  std::vector<int32_t> selection(static_cast<size_t>(parts.options.max_rows * block));
  for (size_t i = 0; i < selection.size(); ++i)
    selection[i] = static_cast<int32_t>(static_cast<int64_t>(i) % block);
  memory().upload(stream(), workspace.draft_selection, selection.data(),
                  static_cast<int64_t>(selection.size() * sizeof(int32_t)));
}

Result<std::unique_ptr<Model>> Model::Load(const checkpoint::Checkpoint& checkpoint,
                                           const ModelOptions& options) {
  TW_TRY(CheckRows(checkpoint.config(), checkpoint.filter().draft, options));
  TW_TRY(CheckDeviceLimits(checkpoint.config(), options));
  OwnedQueue queue(*options.ops->memory);
  TW_ASSIGN(ModelParts parts, MakeParts(checkpoint, options, queue.get()));
  const kvpool::Geometry geometry = MakeGeometry(parts.config, options);
  return std::unique_ptr<Model>(
      new Model(std::make_unique<State>(std::move(parts), std::move(queue), geometry)));
}

Result<std::unique_ptr<Model>> Model::FromWeights(const Config& config, Weights weights,
                                                  const ModelOptions& options) {
  TW_CHECK(!config.HasEngram());
  TW_CHECK_EQ(weights.layers.size(), checkpoint::PlanLayers(config).size());
  TW_TRY(CheckRows(config, weights.draft.has_value(), options));
  TW_TRY(CheckDeviceLimits(config, options));
  ModelParts parts = PlanParts(config, options);
  parts.weights = std::move(weights);
  const kvpool::Geometry geometry = MakeGeometry(parts.config, options);
  return std::unique_ptr<Model>(new Model(
      std::make_unique<State>(std::move(parts), OwnedQueue(*options.ops->memory), geometry)));
}

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;

const Config& Model::config() const { return state_->parts.config; }
const ModelOptions& Model::options() const { return state_->parts.options; }
kvpool::Pool& Model::pool() { return state_->pool; }
tensor::Stream Model::stream() const { return state_->stream(); }
std::span<FeedForward> Model::experts(int layer) {
  return state_->parts.weights.layers[static_cast<size_t>(layer)].ffn.experts;
}
ExpertStore& Model::expert_store() { return state_->parts.expert_store; }
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

void Model::Learn(kvpool::SequenceId id, int64_t position, int32_t token) {
  State& s = *state_;
  if (s.parts.token_map.empty()) return;
  s.pool.History(id, position) = s.parts.token_map[static_cast<size_t>(token)];
}

void Model::LearnInCheckpoint(int32_t checkpoint, int64_t position, int32_t token) {
  State& s = *state_;
  if (s.parts.token_map.empty()) return;
  s.pool.CheckpointHistory(checkpoint, position) = s.parts.token_map[static_cast<size_t>(token)];
}

void Model::SetGraphs(bool on) { state_->graphs_on = on && FillsUp(options()); }

bool Model::has_draft() const { return state_->parts.weights.draft.has_value(); }

}  // namespace thalweg::model
