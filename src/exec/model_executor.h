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
#include "exec/device_drafts.h"
#include "exec/executor.h"
#include "exec/speculation.h"
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
  // token the host has to choose. Behind blocks of drafts it waits until the device has judged them
  // (while it drafts the next ones), behind masks until they are made (while the forward runs).
  bool Launch(const step::StepPlan& plan) override;
  bool Done() override;
  void Execute(const step::StepPlan& plan, step::StepResult* result) override;

  // Custom logits processors by the name that SamplingParams::logits_processor gives. Thread-safe;
  // a sequence that has begun keeps its own.
  void RegisterProcessor(const std::string& name, sampling::Processor processor);
  void UnregisterProcessor(const std::string& name);

  // Speculation from now on; before the first step. kUnsupported: the model has no draft module. A
  // device that launches steps drafts and judges where it also chooses tokens; other sequences get
  // no drafts there.
  Status SetDrafts(const DraftOptions& options);

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
    int64_t row_limit = 0;  // rows that may ever run
    // Tokens of steps under way that the device chooses, and those that the host will.
    int64_t device_pending = 0, host_pending = 0;
    Status status;  // why it cannot run
  };
  // A row entry of a plan that runs, and where its logits are.
  struct Running {
    static constexpr size_t kNoDrafts = ~size_t{0};
    size_t entry = 0;   // of StepPlan::rows
    int64_t start = 0;  // of its first row
    int64_t count = 0;  // rows that run
    int64_t first_logits = 0;
    int64_t logits = 0;  // rows of them
    bool prompt_logprobs = false;
    bool on_device = false;              // the device chooses
    bool newest = false;                 // the row's token was not known here when it was launched
    size_t entry_of_drafts = kNoDrafts;  // in draft_entries_, or device_entries_
    bool verifies = false;               // a block of more than one row
    bool masked = false;                 // the device waits for the host's masks
    bool drafts_behind = false;          // the device makes a block behind them
    size_t choice = 0;                   // of those that the device chooses for

    int64_t end() const { return start + count; }  // position of the token behind them
    // Of the first token that comes out.
    int64_t first_token() const { return verifies ? start + 1 : end(); }
  };
  // A step that was launched, and its result as far as it is known.
  struct Flight {
    std::vector<step::SequenceRows> rows = {};
    std::vector<Running> running = {};
    // Its tokens are being chosen; the host knows them, and what they mean.
    bool chosen = false, landed = false;
    bool verifies = false;              // lengths depend on what it brings
    bool drafts = false;                // blocks are made behind it
    std::vector<NextTokens> next = {};  // by row with logits, where the device had masks
    step::StepResult result = {};
  };

  explicit ModelExecutor(std::unique_ptr<model::Model> model);
  void Close(int32_t slot);
  void Start(const step::SequenceStart& start);
  Status Open(const step::SequenceStart& start, Slot* slot);
  Status FindProcessor(const std::string& name, Slot* slot);
  Status BeginMasks(const step::SequenceStart& start, Slot* slot) const;
  Status CheckRows(const step::SequenceRows& rows) const;
  int64_t RowsToRun(const step::SequenceRows& rows) const;
  Status AddEntry(const step::StepPlan& plan, size_t entry, bool launch);
  void AddDraftEntry(const step::SequenceRows& rows, Running* running);
  void AddDeviceEntry(const step::SequenceRows& rows, Running* running);
  void PlanDrafts(const step::StepPlan& plan, bool launch);
  bool Verifies(const step::SequenceRows& rows, const Running& running) const;
  bool DraftContext() const;
  std::span<const int32_t> DeviceBlock(const step::SequenceRows& rows, const Running& running);
  void AddDeviceParts(const step::SequenceRows& rows, Running* running, model::Chunk* chunk);
  void AddChunk(const step::SequenceRows& rows, Running* running);
  std::span<const int32_t> TokensOf(const step::SequenceRows& rows, const Running& running) const;
  // Rows of a prompt whose every token's log-probability was asked for.
  static bool WantsPromptLogprobs(const step::SequenceRows& rows,
                                  const sampling::SequenceState& state);
  static model::LogitRows LogitsWanted(const step::SequenceRows& rows, const Running& running);
  bool MayLaunch(const step::StepPlan& plan) const;
  void BeginPlan(const step::StepPlan& plan, bool launch,
                 std::vector<step::SequenceResult>* sequences);
  void AddChunks(const step::StepPlan& plan, bool launch);
  void CountPending(const Flight& flight, int64_t change);
  bool KnowsEnough();
  void ChooseTokens(Flight* flight);
  std::vector<model::RowMask> MasksOf(Flight* flight);
  void MaskRows(const Running& running, Flight* flight, std::span<model::RowMask> rows);
  Result<std::vector<NextTokens>> NextOf(const Running& running, int32_t number);
  Status CollectDrafts();
  Status RunForward();
  void Land(Flight* flight);
  void ExecuteWhole(const step::StepPlan& plan, step::StepResult* result);
  std::span<float> Logits(int64_t row);
  void TakePromptLogprobs(const step::SequenceRows& rows, const Running& running,
                          step::SequenceResult* result);
  void Sample(std::span<const step::SequenceRows> rows, const Flight* flight,
              step::StepResult* result);
  void WaitForMasks(step::StepResult* result);
  void TakeChosen(const Running& running, const Flight& flight, step::StepResult* result);
  Result<sampling::RowSample> ChosenSample(const Running& running, const Flight& flight,
                                           int64_t row) const;
  int64_t AcceptedOf(const Running& running) const;
  std::vector<int32_t> TakeTokens(const Running& running, const Flight& flight, Slot* slot,
                                  step::StepResult* result);
  void TakeSample(const Running& running, Result<sampling::RowSample>* sample,
                  step::StepResult* result);
  void Keep(sampling::RowSample* made, Slot* slot, step::SequenceResult* own,
            step::StepResult* result);
  void Judge(step::StepResult* result);
  void TakeVerdict(const Running& running, step::StepResult* result);
  Status DraftNext(step::StepResult* result);
  void SaveCheckpoints(std::span<const step::SequenceRows> rows,
                       std::vector<step::SequenceResult>* sequences);
  void LearnCheckpoints(std::span<const step::SequenceRows> rows);
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
  std::vector<size_t> sample_running_;  // of sample_rows_, in running_
  std::vector<Result<sampling::RowSample>> samples_;
  sampling::ScratchPool scratch_;
  // At most one of them: drafts of the host, or of a device.
  std::unique_ptr<Speculation> speculation_;
  std::unique_ptr<DeviceDrafts> device_drafts_;
  std::vector<DeviceDraftEntry> device_entries_;
  std::vector<int32_t> block_tokens_;  // [device_entries_, 1 + block], what the host knows of them
  std::vector<uint8_t> draft_behind_;  // of chunks_
  model::LaunchedDrafts launched_drafts_;
  std::vector<DraftEntry> draft_entries_;
  std::vector<std::span<float>> verify_logits_;  // by draft entry
  std::vector<uint8_t> goes_on_;                 // likewise
};

}  // namespace thalweg::exec
