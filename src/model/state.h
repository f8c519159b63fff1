// What a model holds between steps. Internal to the room.
#pragma once

#include <memory>
#include <span>
#include <vector>

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

  Status CheckIds(std::span<const int32_t> tokens) const;
  Status CheckChunk(const Chunk& chunk) const;
  Status CheckChunks(std::span<const Chunk> chunks);
  Status Prepare(std::span<const Chunk> chunks);
  Status CheckStep(std::span<const Chunk> chunks);

  // Puts a step on the queue.
  void Enqueue(std::span<const Chunk> chunks, Probe* probe, StepOutput* output);
  bool Recordable(std::span<const Chunk> chunks, const Probe* probe) const;
  void FillUp(Run& run);
  void Body(Run& run, StepOutput* output);
  void Forward(Run& run);
  void TapDrafter(Run& run);
  void Head(Run& run, StepOutput* output);
  void ChooseTokens(Run& run);
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
  // Of the step being queued.
  int64_t logit_rows = 0;
  float* logits = nullptr;
};

}  // namespace thalweg::model
