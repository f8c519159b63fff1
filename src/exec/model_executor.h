// The model behind the executor interface: builds the batch of a plan, runs the forward, samples,
// and keeps what a rank must remember of each slot (docs/contracts/exec.md).
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "exec/executor.h"
#include "exec/token_masks.h"
#include "model/model.h"
#include "sampling/sampler.h"

namespace thalweg::exec {

class ModelExecutor : public Executor {
 public:
  // options.max_sequences slots. The checkpoint and what options point to must outlive the
  // executor. Errors: what Model::Load refuses.
  static Result<std::unique_ptr<ModelExecutor>> Create(const checkpoint::Checkpoint& checkpoint,
                                                       model::ModelOptions options);
  ~ModelExecutor() override;

  // On a device that chooses tokens: at most two steps are under way, and none behind a row whose
  // token the host has to choose.
  bool Launch(const step::StepPlan& plan) override;
  bool Done() override;
  void Execute(const step::StepPlan& plan, step::StepResult* result) override;

  // Custom logits processors by the name that SamplingParams::logits_processor gives. Thread-safe;
  // a sequence that has begun keeps its own.
  void RegisterProcessor(const std::string& name, sampling::Processor processor);
  void UnregisterProcessor(const std::string& name);

  // Where constrained sequences find their masks; before the first step.
  void SetTokenMasks(FindTokenMasks find) { find_masks_ = std::move(find); }

  model::Model& model() { return *model_; }

 private:
  // One sequence on the rank.
  struct Slot {
    uint64_t sequence = 0;
    bool open = false;
    kvpool::SequenceId id = {};
    std::unique_ptr<sampling::SequenceState> state;
    std::shared_ptr<const sampling::Processor> processor;
    std::shared_ptr<TokenMasks> masks;  // null: any token may come
    int64_t decoder_from = 0;
    // Tokens of steps under way that the device chooses, and those that the host will.
    int64_t device_pending = 0, host_pending = 0;
    Status status;  // why it cannot run
  };
  // A row entry of a plan that runs, and where its logits are.
  struct Running {
    size_t entry = 0;  // of StepPlan::rows
    int64_t first_logits = 0;
    bool all_logits = false;
    bool on_device = false;  // the device chooses
    bool newest = false;     // the row's token was not known here when it was launched
  };
  // A step that was launched, its result as far as it is known.
  struct Flight {
    uint64_t number = 0;
    Status status;
    std::vector<step::SequenceResult> sequences;
    std::vector<Running> running;
  };

  explicit ModelExecutor(std::unique_ptr<model::Model> model);
  void Close(int32_t slot);
  void Start(const step::SequenceStart& start);
  Status Open(const step::SequenceStart& start, Slot* slot);
  Status FindProcessor(const std::string& name, Slot* slot);
  Status BeginMasks(const step::SequenceStart& start, Slot* slot) const;
  Status CheckRows(const step::SequenceRows& rows) const;
  Status AddRows(const step::StepPlan& plan, size_t entry, bool launch);
  bool MayLaunch(const step::StepPlan& plan) const;
  void BeginPlan(const step::StepPlan& plan, bool launch,
                 std::vector<step::SequenceResult>* sequences);
  void CountPending(const step::StepPlan& plan, int64_t change);
  Status Land(const step::StepPlan& plan, step::StepResult* result);
  static int64_t LogitCount(const step::SequenceRows& rows, bool all);
  std::span<float> Logits(int64_t row);
  void TakePromptLogprobs(const step::SequenceRows& rows, const Running& running,
                          step::SequenceResult* result);
  void Sample(const step::StepPlan& plan, step::StepResult* result);
  void WaitForMasks(step::StepResult* result);
  void TakeChosen(const step::StepPlan& plan, const Running& running, step::SequenceResult* result);
  void TakeSample(int64_t position, Result<sampling::RowSample>* sample,
                  step::SequenceResult* result);
  void SaveCheckpoints(const step::StepPlan& plan);
  void LearnCheckpoints(const step::StepPlan& plan);
  Slot& slot(int32_t number) { return slots_.at(static_cast<size_t>(number)); }
  const Slot& slot(int32_t number) const { return slots_.at(static_cast<size_t>(number)); }

  std::unique_ptr<model::Model> model_;
  std::vector<Slot> slots_;
  std::mutex processors_mutex_;
  std::unordered_map<std::string, std::shared_ptr<const sampling::Processor>> processors_;

  std::deque<Flight> flights_;  // launched, oldest first

  // Lists of the step under way; they keep their memory.
  std::vector<model::Chunk> chunks_;
  std::vector<Running> running_;
  model::StepOutput output_;
  FindTokenMasks find_masks_;
  std::vector<NextTokens> next_tokens_;  // of sample_rows_
  std::vector<sampling::Row> sample_rows_;
  std::vector<size_t> sample_entries_;
  std::vector<Result<sampling::RowSample>> samples_;
  sampling::ScratchPool scratch_;
};

}  // namespace thalweg::exec
