// What the parts of one forward share. Internal to the room.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/engram_tables.h"
#include "kernels/ops.h"
#include "kvpool/pool.h"
#include "model/batch.h"
#include "model/expert_store.h"
#include "model/model.h"
#include "model/probe.h"
#include "model/upload.h"
#include "model/weights.h"
#include "model/workspace.h"
#include "tensor/large_buffer.h"

namespace thalweg::model {

// In place of a compressed id in the Engram history: a token that counts as padding, and so does
// everything before it (spec/model.md 2.3).
inline constexpr int32_t kDeadToken = -1;

// What a device needs to hash n-grams, in its memory.
struct EngramConstants {
  tensor::Buffer memory;
  const int32_t* token_map = nullptr;     // [vocab]
  const uint64_t* multipliers = nullptr;  // [tables, n-gram size]
  const uint64_t* primes = nullptr;       // [tables, columns]
  const int64_t* offsets = nullptr;       // [tables, columns]
};

// Everything that stays the same from step to step.
struct ModelParts {
  checkpoint::Config config;
  ModelOptions options;
  std::vector<checkpoint::LayerPlan> plans;     // target layers, then draft stages
  std::vector<int> owner_of_layer;              // index into the pool's owners, -1 none
  std::vector<checkpoint::EngramTable> tables;  // one per Engram layer
  std::vector<int32_t> token_map;               // token id -> compressed id
  RopeFrequencies frequencies;
  Weights weights;
  tensor::LargeBuffer packed;  // what Matrix::packed of the weights points into
  ExpertStore expert_store;    // blocks in it for experts that move
  UploadedWeights uploaded;    // all weights, where the backend's memory is not the host's
  EngramConstants engram;      // where the backend hashes
};

// What the rows of a layer attend to.
struct AttentionKeys {
  std::vector<kernels::WindowKeys> window;             // [sequences]
  const kernels::WindowKeys* listed_window = nullptr;  // (list) in place of it
  std::vector<tensor::PagedRows> selected;             // [sequences]; empty: the layer has none
  const int64_t* window_end = nullptr;                 // (list) [rows]
  const int32_t* selection = nullptr;                  // [rows, topk]
  int64_t topk = 0;

  void Clear();
};

// The groups that a step completes in one owner layer, over all sequences.
struct CompressedGroups {
  std::vector<int64_t> position;  // of the group's first token
  std::vector<int64_t> row;       // of the step, ratio 1
  std::vector<uint8_t*> main;     // destinations
  std::vector<uint8_t*> index;
  std::vector<const float*> first_kv, first_score, second_kv, second_score;  // ratio 2
  Angles angles;                                                             // of each position

  int64_t count() const { return static_cast<int64_t>(position.size()); }
  void Clear();
};

// Lists that the host makes in a step. They keep their memory from step to step: a decode step
// allocates nothing.
struct StepLists {
  Batch batch;
  std::vector<uint8_t> seen;           // [max sequences], of the chunks checked
  std::vector<int64_t> engram_rows;    // [Engram layers][rows, columns], where the host hashes
  std::vector<int32_t> look_back;      // ids before and of one sequence's rows
  std::vector<int32_t> look_backs;     // [rows, n-gram size], where the backend hashes
  std::vector<int64_t> kept;           // rows that the decoder runs
  std::vector<const void*> copy_from;  // of the rows being copied
  std::vector<void*> copy_to;
  std::vector<int64_t> wanted;                    // rows that the head runs
  std::vector<int32_t> padding;                   // tokens that fill up a step
  int32_t live = 0;                               // rows that are no padding, where ranks route
  std::vector<kernels::ChooseRow> choices;        // [rows that the head runs]
  std::vector<uint32_t> masks;                    // of some of them
  std::vector<kernels::DraftedRows> blocks;       // [sequences that tokens are chosen for]
  AttentionKeys keys;                             // of the layer under way
  CompressedGroups groups;                        // of the layer under way
  std::vector<kernels::WindowKeys> draft_window;  // [stages, sequences]
  std::vector<int64_t> window_end;                // [rows], of a draft stage
  std::vector<int64_t> visible;                   // [rows], of the index source under way
  std::vector<tensor::PagedRows> index;           // [sequences], likewise
  std::vector<int32_t> draft_tokens;              // [sequences], of the slot under way
  std::vector<int32_t> accepted_of;               // [sequences], of a draft behind a launched step
  std::vector<int64_t> ahead;                     // positions that its rows may have
  Angles ahead_angles;
};

// The batch as ops read it (Run::List); made anew when its rows change.
struct ListedBatch {
  const int32_t* ids = nullptr;
  const int64_t* position = nullptr;
  const int32_t* row_sequence = nullptr;
  const uint8_t* image = nullptr;
  kernels::Rotation plain, compressed;
};

class StepResults;
class ContextStep;

// One forward under way.
struct Run {
  const ModelParts& parts;
  kvpool::Pool& pool;
  Workspace& ws;
  StepLists& lists;
  StepResults& results;
  void* queue;  // of the device; null on the host
  Probe* probe;
  const int32_t* newest = nullptr;     // [slots], of a device: tokens it chose
  const kernels::Ops* idle = nullptr;  // instead of the backend's: lists alone are made
  bool draft_context = true;           // the draft module's window rows are made
  int64_t fixed_sequences = 0;         // > 0: lists are as long as if there were so many
  int64_t most_tokens = 0;             // > 0: no context is longer
  Batch& batch = lists.batch;
  ListedBatch listed = {};
  ContextStep* context = nullptr;  // rows are shared with other ranks

  const checkpoint::Config& config() const { return parts.config; }
  const kernels::Ops& ops() const { return idle != nullptr ? *idle : *parts.options.ops; }
  const tensor::Memory& memory() const { return *parts.options.ops->memory; }
  tensor::Stream stream() const { return {.team = parts.options.team, .device = queue}; }
  const LayerWeights& layer(int i) const { return parts.weights.layers[static_cast<size_t>(i)]; }
  const checkpoint::LayerPlan& plan(int i) const { return parts.plans[static_cast<size_t>(i)]; }
  int64_t rows() const { return batch.rows(); }

  // `count` values as ops of this step read them.
  template <typename T>
  const T* List(const T* values, int64_t count) const {
    const tensor::StepQueue* steps = memory().steps;
    if (steps == nullptr || count == 0) return values;
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    return static_cast<const T*>(steps->list(stream(), values, bytes));
  }
  template <typename T>
  const T* List(const std::vector<T>& values) const {
    return List(values.data(), static_cast<int64_t>(values.size()));
  }
  // What there is one of for each sequence.
  template <typename T>
  const T* ListSequences(std::vector<T>* values) const {
    if (fixed_sequences > 0 && !values->empty())
      values->resize(static_cast<size_t>(fixed_sequences), values->back());
    return List(*values);
  }
  // To be called when the rows of the batch are there, or others.
  void ListBatch();
};

// Bytes of the backend's memory as the host sees them: the bytes themselves, or a copy that goes
// back with Store.
class HostView {
 public:
  HostView(const Run& run, void* data, int64_t bytes) : run_(run), data_(data), bytes_(bytes) {
    if (run.memory().host) return;
    copy_.resize(static_cast<size_t>(bytes));
    run.memory().download(run.stream(), copy_.data(), data, bytes);
  }
  template <typename T>
  T* as() {
    return static_cast<T*>(run_.memory().host ? data_ : copy_.data());
  }
  void Store() const {
    if (!run_.memory().host) run_.memory().upload(run_.stream(), data_, copy_.data(), bytes_);
  }

 private:
  const Run& run_;
  void* data_;
  int64_t bytes_;
  std::vector<std::byte> copy_;
};

// The points that a probe may change.
bool MayChange(std::string_view point);

// Makes a tensor visible when the probe wants it.
template <typename T>
void Observe(const Run& run, int layer, std::string_view name, T* data, tensor::Shape shape) {
  if (run.probe == nullptr || !run.probe->Wants(layer, name)) return;
  HostView view(run, data, shape.elements() * static_cast<int64_t>(sizeof(T)));
  run.probe->See(layer, name, {tensor::kDTypeOf<T>, shape, view.as<std::byte>()});
  if (MayChange(name)) view.Store();
}

// For tensors that are on the host whatever the backend.
template <typename T>
void ObserveHost(const Run& run, int layer, std::string_view name, T* data, tensor::Shape shape) {
  if (run.probe == nullptr || !run.probe->Wants(layer, name)) return;
  run.probe->See(layer, name, {tensor::kDTypeOf<T>, shape, reinterpret_cast<std::byte*>(data)});
}

// Adds copies that change nothing that is read until there are `count`.
void FillUpCopies(Run& run, int64_t count, const void* from, int64_t bytes);
// Paged rows of each sequence as ops read them: a device has the block tables already.
const tensor::PagedRows* ListRows(const Run& run, std::vector<tensor::PagedRows>* rows);
// Copies the rows that the lists name (StepLists::copy_from, copy_to), `bytes` each.
void CopyListedRows(Run& run, int64_t bytes);

// The same for an input of quantised projections: a changed row is quantised again.
void ObserveInput(const Run& run, int layer, std::string_view name, BF16* rows, BF16* quantised);

// The parts, each in its own file, called in paper order by RunLayer.

// engram.cc: rows of the tables for every token, from ids alone; then the update of one layer's
// streams.
void HashEngramRows(Run& run);
void ApplyEngram(Run& run, int layer);
// Drops the table rows of tokens that the decoder does not run; `before` is the number of rows they
// were made for.
void KeepEngramRows(Run& run, int64_t before, const std::vector<int64_t>& kept);

// hyper_connection.cc: predict before a sublayer, finish behind it.
enum class Site { kAttention, kFfn };
void PredictSite(Run& run, int layer, Site site);
void FinishSite(Run& run, int layer, Site site);
void TakeTap(Run& run, int layer);

// compressor.cc: new main rows and index keys of an owner layer.
void Compress(Run& run, int layer);

// indexer.cc: the selection of an index source.
void Select(Run& run, int layer);

// attention.cc: queries and window rows, attention, output projection.
// What the rows of a target layer attend to: their window, and the owner's rows of the newest
// selection. Valid until the next layer.
AttentionKeys& TargetKeys(Run& run, int layer);
void ProjectQueryAndWindow(Run& run, int layer);
// Encodes ws.kv as this step's window rows of the layer.
void MakeWindowRows(Run& run, int layer);
void Attend(Run& run, int layer, AttentionKeys& keys);
void ProjectOut(Run& run, int layer);
void CommitWindow(Run& run, int layer);

// moe.cc
void MixExperts(Run& run, int layer);
// The experts of rows that have chosen theirs; also for a rank that has none, beside others that
// do.
void RunExperts(Run& run, int layer);

// layer.cc
void RunLayer(Run& run, int layer);

// draft.cc: window rows of the draft stages for every row of the batch, from the rows' taps.
void InsertDraftContext(Run& run);
// One block per sequence of the batch; the batch holds the block's rows.
void DraftBlock(Run& run, std::span<const DraftRequest> requests, DraftOutput* output);
// Lists of a draft: `window` are of all stages.
struct DraftLists {
  const int32_t* identity = nullptr;            // the one block that a sequence has
  const kernels::WindowKeys* window = nullptr;  // [stages, sequences]
  const int64_t* window_end = nullptr;          // [rows]
};
DraftLists ListDraft(Run& run);
// The stages, and base logits of every row; ws.normed holds the collapsed state v afterwards.
float* RunDraftStages(Run& run, const DraftLists& lists, std::vector<float>* host);
// One step of the Markov chain, but for what differs by where the tokens are.
kernels::MarkovParams MarkovOf(const Run& run, int64_t slot, float* base);
// The rows of a draft: the token, then noise, at the positions behind each sequence's end.
void FillDraftBatch(std::span<const DraftRequest> requests, const kvpool::Pool& pool,
                    const ModelParts& parts, StepLists* lists);

}  // namespace thalweg::model
