#include "exec/model_executor.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

namespace thalweg::exec {
namespace {

using step::SequenceResult;
using step::SequenceRows;
using step::StepPlan;
using step::StepResult;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Whether a device's choice has the bits of the sampler's for a sequence: nothing beside the
// temperature has a say, and nobody wants more than the token.
bool DeviceMayChoose(const sampling::SequenceState& state) {
  const step::SamplingParams& p = state.params();
  const bool greedy = p.temperature < sampling::kGreedyBelow || p.top_k == 1;
  const bool cut = !greedy && (p.top_k > 0 || p.top_p < 1 || p.min_p > 0);
  return !cut && !state.changes_logits() && p.thinking_budget < 0 && p.logprobs < 0 &&
         p.logits_processor.empty();
}

kernels::ChooseRow ChoiceOf(const sampling::SequenceState& state, int64_t position, int32_t slot) {
  const step::SamplingParams& p = state.params();
  const bool greedy = p.temperature < sampling::kGreedyBelow || p.top_k == 1;
  return {.seed = p.seed,
          .position = position,
          .temperature = greedy ? 0 : p.temperature,
          .slot = slot};
}

int64_t PromptRows(const StepPlan& plan) {
  int64_t rows = 0;
  for (const SequenceRows& r : plan.rows) rows += r.known_tokens ? r.count : 0;
  return rows;
}

}  // namespace

bool ModelExecutor::WantsPromptLogprobs(const SequenceRows& rows,
                                        const sampling::SequenceState& state) {
  return state.params().prompt_logprobs >= 0 && rows.start < state.prompt_tokens();
}

Result<std::unique_ptr<ModelExecutor>> ModelExecutor::Create(
    const checkpoint::Checkpoint& checkpoint, model::ModelOptions options) {
  options.blocks_from_outside = true;
  TW_ASSIGN(std::unique_ptr<model::Model> model, model::Model::Load(checkpoint, options));
  return std::unique_ptr<ModelExecutor>(new ModelExecutor(std::move(model)));
}

ModelExecutor::ModelExecutor(std::unique_ptr<model::Model> model)
    : model_(std::move(model)), slots_(static_cast<size_t>(model_->options().max_sequences)) {}

ModelExecutor::~ModelExecutor() {
  const kernels::DeviceGauges* gauges = model_->options().ops->gauges;
  if (gauges == nullptr) return;
  const kernels::StepSeconds seconds = gauges->step_seconds(model_->stream());
  spdlog::info("the device ran launched steps for {:.3f} s, and had none between them for {:.3f} s",
               seconds.busy, seconds.idle);
}

Status ModelExecutor::SetDrafts(const DraftOptions& options) {
  speculation_.reset();
  device_drafts_.reset();
  if (options.drafts == 0 && !options.forced) return {};
  if (options.drafts > 0 && !model_->has_draft())
    return base::Unsupported("the model was loaded without a draft module");
  if (model_->CanLaunch(1) && options.drafts == 0) return {};
  if (model_->CanLaunch(1)) {
    device_drafts_ = std::make_unique<DeviceDrafts>(model_.get(), options);
    block_tokens_.assign(
        slots_.size() * static_cast<size_t>(1 + model_->config().dspark_block_size), 0);
  } else {
    speculation_ = std::make_unique<Speculation>(model_.get(), options);
  }
  return {};
}

void ModelExecutor::RegisterProcessor(const std::string& name, sampling::Processor processor) {
  const std::lock_guard lock(processors_mutex_);
  processors_[name] = std::make_shared<const sampling::Processor>(std::move(processor));
}

void ModelExecutor::UnregisterProcessor(const std::string& name) {
  const std::lock_guard lock(processors_mutex_);
  processors_.erase(name);
}

Status ModelExecutor::FindProcessor(const std::string& name, Slot* slot) {
  if (name.empty()) return {};
  const std::lock_guard lock(processors_mutex_);
  const auto found = processors_.find(name);
  if (found == processors_.end())
    return base::NotFound(fmt::format("no logits processor is named \"{}\"", name));
  slot->processor = found->second;
  return {};
}

Status ModelExecutor::BeginMasks(const step::SequenceStart& start, Slot* slot) const {
  if (!start.sampling.constrained) return {};
  if (find_masks_) slot->masks = find_masks_(start.sequence);
  if (slot->masks == nullptr) return base::Internal("a constrained sequence has no masks");
  return slot->masks->Begin(
      std::span(start.tokens).subspan(static_cast<size_t>(start.prompt_tokens)));
}

void ModelExecutor::Close(int32_t number) {
  Slot& s = slot(number);
  if (s.open) model_->pool().Close(s.id);
  if (s.open && speculation_ != nullptr) speculation_->End(number);
  if (s.open && device_drafts_ != nullptr) device_drafts_->End(number);
  s = {};
}

void ModelExecutor::Start(const step::SequenceStart& start) {
  Slot& s = slot(start.slot);
  TW_CHECK(!s.open);
  s.sequence = start.sequence;
  s.status = Open(start, &s);
}

// The decoder has rows from decoder_from on, or none yet.
Status ModelExecutor::Open(const step::SequenceStart& start, Slot* slot) {
  kvpool::Pool& pool = model_->pool();
  TW_ASSIGN(slot->id, pool.Open());
  slot->open = true;
  slot->decoder_from = start.decoder_from;
  slot->row_limit = start.end_tokens - 1;
  if (speculation_ != nullptr)
    speculation_->Begin(start.slot, start.sequence, start.sampling.seeded);
  if (device_drafts_ != nullptr) device_drafts_->Begin(start.slot, start.sequence);
  TW_TRY(FindProcessor(start.sampling.logits_processor, slot));
  TW_TRY(BeginMasks(start, slot));
  TW_TRY(sampling::Validate(start.sampling, model_->config().vocab_size));
  slot->state = std::make_unique<sampling::SequenceState>(
      start.sampling, model_->config().vocab_size, start.tokens, start.prompt_tokens);
  if (start.start < 0 || start.start >= static_cast<int64_t>(start.tokens.size()))
    return base::Internal(
        fmt::format("a start at {} of {} tokens", start.start, start.tokens.size()));
  const kvpool::Beginning beginning{.length = start.start,
                                    .encoder_floor = start.encoder_floor,
                                    .decoder_floor = std::min(start.decoder_from, start.start),
                                    .write_from = start.write_from};
  if (start.restore_checkpoint >= 0)
    return pool.RestoreCheckpoint(slot->id, start.restore_checkpoint, beginning);
  return model_->Begin(slot->id, beginning,
                       std::span(start.tokens).first(static_cast<size_t>(start.start)));
}

Status ModelExecutor::CheckRows(const SequenceRows& rows) const {
  const Slot& s = slot(rows.slot);
  if (!s.open || s.sequence != rows.sequence)
    return base::Internal(
        fmt::format("slot {} does not hold sequence {}", rows.slot, rows.sequence));
  TW_TRY(s.status);
  const int64_t length = model_->pool().length(s.id);
  const int64_t known = static_cast<int64_t>(s.state->tokens().size()) + s.device_pending;
  const int64_t end = rows.start + rows.count;
  const bool fits = rows.known_tokens
                        ? rows.start == length && end <= known && s.device_pending == 0
                        : rows.start <= length && length == known - 1;
  if (rows.count < 1 || !fits) {
    return base::Internal(
        fmt::format("rows [{}, {}) of sequence {}, which has {} of {} tokens done", rows.start, end,
                    rows.sequence, length, known));
  }
  return {};
}

// With drafts fewer than planned, or none, may be left to the sequence's end or to where it is
// saved.
int64_t ModelExecutor::RowsToRun(const SequenceRows& rows) const {
  if (rows.known_tokens) return rows.count;
  const Slot& s = slot(rows.slot);
  const int64_t length = model_->pool().length(s.id);
  int64_t count = std::min<int64_t>(rows.count, s.row_limit - length);
  if (rows.save_at > length) count = std::min(count, rows.save_at - length);
  return count;
}

void ModelExecutor::AddDraftEntry(const SequenceRows& rows, Running* running) {
  const Slot& s = slot(rows.slot);
  if (speculation_ == nullptr || !rows.sample) return;
  running->entry_of_drafts = draft_entries_.size();
  draft_entries_.push_back(
      {.slot = rows.slot,
       .sequence = rows.sequence,
       .id = s.id,
       .state = s.state.get(),
       .processor = s.processor.get(),
       .masks = s.masks.get(),
       .decodes = !rows.known_tokens,
       .tokens_left = s.row_limit + 1 - static_cast<int64_t>(s.state->tokens().size()),
       .most = rows.known_tokens ? 0 : running->count - 1});
}

void ModelExecutor::AddDeviceEntry(const SequenceRows& rows, Running* running) {
  if (device_drafts_ == nullptr || !running->on_device) return;
  const Slot& s = slot(rows.slot);
  const int64_t known = static_cast<int64_t>(s.state->tokens().size()) + s.device_pending;
  running->entry_of_drafts = device_entries_.size();
  device_entries_.push_back({.slot = rows.slot,
                             .sequence = rows.sequence,
                             .position = known - 1,
                             .decodes = !rows.known_tokens,
                             .tokens_left = s.row_limit + 1 - known,
                             .most = rows.known_tokens ? 0 : running->count - 1});
}

Status ModelExecutor::AddEntry(const StepPlan& plan, size_t entry, bool launch) {
  const SequenceRows& rows = plan.rows[entry];
  TW_TRY(CheckRows(rows));
  const Slot& s = slot(rows.slot);
  const auto blocks = std::span(plan.blocks)
                          .subspan(static_cast<size_t>(rows.new_blocks_begin),
                                   static_cast<size_t>(rows.new_blocks_count));
  TW_TRY(model_->pool().Attach(s.id, blocks));
  Running running{.entry = entry,
                  .start = model_->pool().length(s.id),
                  .count = RowsToRun(rows),
                  .prompt_logprobs = WantsPromptLogprobs(rows, *s.state),
                  .on_device = launch && rows.sample && DeviceMayChoose(*s.state),
                  .newest = s.device_pending > 0};
  if (running.count < 1) return {};
  running.masked = running.on_device && s.masks != nullptr;
  AddDraftEntry(rows, &running);
  AddDeviceEntry(rows, &running);
  if (!rows.known_tokens) running.count = 1;
  running_.push_back(running);
  return {};
}

std::span<const int32_t> ModelExecutor::TokensOf(const SequenceRows& rows,
                                                 const Running& running) const {
  static constexpr int32_t kAnyToken = 0;
  if (running.verifies) return speculation_->Block(running.entry_of_drafts);
  if (running.newest) return {&kAnyToken, 1};
  const std::span<const int32_t> tokens = slot(rows.slot).state->tokens();
  if (!rows.known_tokens) return tokens.last(1);
  return tokens.subspan(static_cast<size_t>(rows.start), static_cast<size_t>(rows.count));
}

model::LogitRows ModelExecutor::LogitsWanted(const SequenceRows& rows, const Running& running) {
  if (running.prompt_logprobs || running.verifies) return model::LogitRows::kAll;
  return rows.sample ? model::LogitRows::kLast : model::LogitRows::kNone;
}

// Whether a row brings drafts with it.
bool ModelExecutor::Verifies(const SequenceRows& rows, const Running& running) const {
  if (rows.known_tokens || running.entry_of_drafts == Running::kNoDrafts) return false;
  if (running.on_device) return device_drafts_->verify(running.entry_of_drafts) > 0;
  return speculation_->Block(running.entry_of_drafts).size() > 1;
}

bool ModelExecutor::DraftContext() const {
  if (device_drafts_ != nullptr) return device_drafts_->context();
  return speculation_ == nullptr || speculation_->draft_context();
}

// A block of which the host knows no more than the anchor, and that perhaps not.
std::span<const int32_t> ModelExecutor::DeviceBlock(const SequenceRows& rows,
                                                    const Running& running) {
  const auto each = static_cast<size_t>(1 + model_->config().dspark_block_size);
  const auto block = std::span(block_tokens_).subspan(running.entry_of_drafts * each, each);
  if (!running.newest) block.front() = slot(rows.slot).state->tokens().back();
  return block.first(static_cast<size_t>(1 + device_drafts_->verify(running.entry_of_drafts)));
}

// What the device alone knows, and what it is to choose.
void ModelExecutor::AddDeviceParts(const SequenceRows& rows, Running* running,
                                   model::Chunk* chunk) {
  if (running->newest) chunk->newest_slot = rows.slot;
  if (!running->on_device) return;
  if (running->verifies) chunk->drafts_at = model_->DraftsAt(rows.slot);
  chunk->choose = ChoiceOf(*slot(rows.slot).state, running->first_token(), rows.slot);
  running->drafts_behind = running->entry_of_drafts != Running::kNoDrafts &&
                           device_drafts_->draft(running->entry_of_drafts);
  if (running->drafts_behind && !running->verifies)
    device_drafts_->Stands(rows.slot, running->end());
}

void ModelExecutor::AddChunk(const SequenceRows& rows, Running* running) {
  const Slot& s = slot(rows.slot);
  running->verifies = Verifies(rows, *running);
  model::Chunk chunk{.sequence = s.id,
                     .tokens = running->verifies && running->on_device ? DeviceBlock(rows, *running)
                                                                       : TokensOf(rows, *running),
                     .decoder_from = s.decoder_from,
                     .logits = LogitsWanted(rows, *running),
                     .draft_context = DraftContext()};
  running->count = static_cast<int64_t>(chunk.tokens.size());
  running->logits = chunk.logits == model::LogitRows::kAll    ? running->count
                    : chunk.logits == model::LogitRows::kLast ? 1
                                                              : 0;
  AddDeviceParts(rows, running, &chunk);
  draft_behind_.push_back(running->drafts_behind ? 1 : 0);
  chunks_.push_back(chunk);
}

void ModelExecutor::PlanDrafts(const StepPlan& plan, bool launch) {
  if (speculation_ != nullptr) speculation_->Plan(plan.number, draft_entries_, PromptRows(plan));
  if (device_drafts_ == nullptr || !launch) return;
  const auto samples = std::count_if(plan.rows.begin(), plan.rows.end(),
                                     [](const SequenceRows& rows) { return rows.sample; });
  device_drafts_->Plan(plan.number, device_entries_, PromptRows(plan),
                       model_->MostLaunchRows() - samples);
}

void ModelExecutor::AddChunks(const StepPlan& plan, bool launch) {
  chunks_.clear();
  draft_behind_.clear();
  PlanDrafts(plan, launch);
  int64_t logits = 0;
  size_t choices = 0;
  for (Running& running : running_) {
    AddChunk(plan.rows[running.entry], &running);
    running.first_logits = logits;
    running.choice = choices;
    logits += running.logits;
    if (running.on_device) ++choices;
  }
}

// Slots closed and begun, and the chunks of the rows that can run.
void ModelExecutor::BeginPlan(const StepPlan& plan, bool launch,
                              std::vector<SequenceResult>* sequences) {
  sequences->assign(plan.rows.size(), {});
  for (const int32_t number : plan.closes) Close(number);
  for (const step::SequenceStart& start : plan.starts) Start(start);
  running_.clear();
  draft_entries_.clear();
  device_entries_.clear();
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    SequenceResult& r = (*sequences)[i];
    r.slot = plan.rows[i].slot;
    r.sequence = plan.rows[i].sequence;
    r.status = AddEntry(plan, i, launch);
    // A sequence that cannot go on must not run later plans either.
    if (!r.status.ok() && slot(r.slot).sequence == r.sequence) slot(r.slot).status = r.status;
  }
  AddChunks(plan, launch);
}

void ModelExecutor::SaveCheckpoints(std::span<const SequenceRows> all,
                                    std::vector<SequenceResult>* sequences) {
  for (size_t i = 0; i < all.size(); ++i) {
    const SequenceRows& rows = all[i];
    SequenceResult& own = (*sequences)[i];
    if (rows.save_checkpoint < 0 || !own.status.ok()) continue;
    const kvpool::SequenceId id = slot(rows.slot).id;
    own.saved = rows.save_at == 0 || rows.save_at == model_->pool().length(id);
    if (own.saved) model_->pool().SaveCheckpoint(id, rows.save_checkpoint);
  }
}

void ModelExecutor::Execute(const StepPlan& plan, StepResult* result) {
  const double begin = Now();
  if (flights_.empty()) {
    ExecuteWhole(plan, result);
  } else {
    Flight& flight = flights_.front();
    TW_CHECK_EQ(flight.result.number, plan.number);
    Land(&flight);
    std::swap(*result, flight.result);
    flights_.pop_front();
  }
  result->execute_seconds = Now() - begin;
}

// Ranks that share experts, or the rows of prompts, go through every step together, with rows or
// without.
Status ModelExecutor::RunForward() {
  if (!chunks_.empty()) return model_->Step(chunks_, &output_);
  const model::ModelOptions& options = model_->options();
  const bool alone = options.expert_parallel == nullptr && options.context_parallel == nullptr;
  return alone ? Status() : model_->Idle();
}

void ModelExecutor::ExecuteWhole(const StepPlan& plan, StepResult* result) {
  result->Clear();
  result->number = plan.number;
  result->status = CollectDrafts();
  BeginPlan(plan, false, &result->sequences);
  if (result->status.ok()) result->status = RunForward();
  if (!result->status.ok()) return;
  Sample(plan.rows, nullptr, result);
  SaveCheckpoints(plan.rows, &result->sequences);
  if (speculation_ != nullptr) result->status = DraftNext(result);
}

}  // namespace thalweg::exec
