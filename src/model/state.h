// What a model holds between steps. Internal to the room.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <vector>

#include "model/context_step.h"
#include "model/expert_parallel.h"
#include "model/idle_ops.h"
#include "model/run.h"
#include "model/step_graphs.h"
#include "model/step_results.h"

namespace thalweg::model {

int64_t CacheBlocks(const checkpoint::Config& config, const ModelOptions& options);

// A queue of the backend; closed at the end.
class OwnedQueue {
 public:
  explicit OwnedQueue(const tensor::Memory& memory)
      : memory_(&memory), queue_(memory.open_queue()) {}
  OwnedQueue(const OwnedQueue&) = delete;
  OwnedQueue& operator=(const OwnedQueue&) = delete;
  OwnedQueue(OwnedQueue&& other) noexcept
      : memory_(other.memory_), queue_(std::exchange(other.queue_, nullptr)) {}
  OwnedQueue& operator=(OwnedQueue&&) = delete;
  ~OwnedQueue() { memory_->close_queue(queue_); }
  void* get() const { return queue_; }

 private:
  const tensor::Memory* memory_;
  void* queue_;
};

struct Model::State {
  State(ModelParts model_parts, OwnedQueue device_queue, kvpool::Geometry geometry);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const tensor::Memory& memory() const { return *parts.options.ops->memory; }
  tensor::Stream stream() const { return {.team = parts.options.team, .device = queue.get()}; }
  Run MakeRun(Probe* probe);
  void SelectBlocks();

  Status CheckIds(std::span<const int32_t> tokens) const;
  Status CheckChunk(const Chunk& chunk) const;
  Status CheckChunks(std::span<const Chunk> chunks);
  Status Prepare(std::span<const Chunk> chunks);
  Status CheckStep(std::span<const Chunk> chunks);

  // Puts a step on the queue.
  void Enqueue(std::span<const Chunk> chunks, Probe* probe, StepOutput* output);
  bool FewRows(std::span<const Chunk> chunks) const;
  bool Recordable(std::span<const Chunk> chunks, const Probe* probe) const;
  void FillUp(Run& run);
  void AppendPadding(Run& run, int64_t rows, LogitRows wanted);
  void Body(Run& run, StepOutput* output);
  void BodyOfGroup(Run& run, std::span<const Chunk> chunks, StepOutput* output);
  // routed_body.cc: steps of ranks whose rows find their experts on devices.
  void AgreeOnStep(const Run& run, std::span<const Chunk> chunks, const Probe* probe);
  void EnqueueRouted(Run& run, StepOutput* output);
  void BodyRouted(Run& run, StepOutput* output);
  Status AwaitRouted();
  void Forward(Run& run);
  void Embed(Run& run);
  void RunLayers(Run& run);
  Status CheckExperts() const;
  bool InGroup() const;  // with others, which go through every step together
  void CommitGroup();
  void TapDrafter(Run& run);
  void Head(Run& run, StepOutput* output);
  // launch.cc: what is done behind a launched forward.
  void ChooseTokens(Run& run, std::span<const RowMask> masks);
  void ListMasks(Run& run, std::span<const RowMask> masks, kernels::ChooseParams* choose);
  void AcceptDrafts(Run& run);
  // draft_launched.cc: a sequence that a block is drafted for; `start`: the least position of the
  // token behind which, `of`: of the blocks whose accepted drafts it is further on.
  struct Behind {
    kvpool::SequenceId id = {};
    int64_t start = 0;
    int32_t of = -1;
    kernels::ChooseRow choose = {};
  };
  void LaunchDrafts();
  void FillLaunchedDrafts(bool fill_up);
  void DraftLaunched(Run& run);
  void Advance(Run& run, const DraftLists& draft, const kernels::ChooseRow* choices);
  void ChainLaunched(Run& run, int64_t slot, float* base, const kernels::ChooseRow* choices);
  bool MakesDraftContext(std::span<const Chunk> chunks) const;
  void Commit(std::span<const Chunk> chunks);

  ModelParts parts;
  OwnedQueue queue;
  kvpool::Pool pool;
  Workspace workspace;
  StepLists lists;
  StepResults results;
  StepGraphs graphs;
  bool graphs_on;
  std::vector<Behind> behind;  // of the drafts being queued
  // Of the step being queued.
  int64_t logit_rows = 0;
  int64_t launched_rows = 0;  // of them, those that chunks asked for
  size_t launched_chunks = 0;
  bool host_chooses = false;  // for some of its rows
  float* logits = nullptr;
  ExpertParallel::StepTerms terms;  // what ranks have agreed on
  std::set<StepGraphs::Key> routed;  // kinds of steps that ran so
  std::unique_ptr<ContextStep> shared_step;  // null: no rows are shared
};

}  // namespace thalweg::model
