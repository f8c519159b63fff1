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

constexpr size_t kMostFlights = 2;

// Whether a device's choice has the bits of the sampler's for a sequence: nothing beside the
// temperature has a say, and nobody wants more than the token.
bool DeviceMayChoose(const sampling::SequenceState& state) {
  const step::SamplingParams& p = state.params();
  const bool greedy = p.temperature < sampling::kGreedyBelow || p.top_k == 1;
  const bool cut = !greedy && (p.top_k > 0 || p.top_p < 1 || p.min_p > 0);
  return !cut && !state.changes_logits() && p.thinking_budget < 0 && p.logprobs < 0 &&
         !p.constrained && p.logits_processor.empty();
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

// Rows of a prompt whose every token's log-probability was asked for.
bool WantsPromptLogprobs(const SequenceRows& rows, const sampling::SequenceState& state) {
  return state.params().prompt_logprobs >= 0 && rows.start < state.prompt_tokens();
}

}  // namespace

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
  if (options.drafts == 0 && !options.forced) return {};
  if (options.drafts > 0 && !model_->has_draft())
    return base::Unsupported("the model was loaded without a draft module");
  speculation_ = std::make_unique<Speculation>(model_.get(), options);
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
  AddDraftEntry(rows, &running);
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

void ModelExecutor::AddChunk(const SequenceRows& rows, Running* running) {
  const Slot& s = slot(rows.slot);
  running->verifies = !rows.known_tokens && running->entry_of_drafts != Running::kNoDrafts &&
                      speculation_->Block(running->entry_of_drafts).size() > 1;
  model::Chunk chunk{.sequence = s.id,
                     .tokens = TokensOf(rows, *running),
                     .decoder_from = s.decoder_from,
                     .logits = LogitsWanted(rows, *running),
                     .draft_context = speculation_ == nullptr || speculation_->draft_context()};
  running->count = static_cast<int64_t>(chunk.tokens.size());
  running->logits = chunk.logits == model::LogitRows::kAll    ? running->count
                    : chunk.logits == model::LogitRows::kLast ? 1
                                                              : 0;
  if (running->newest) chunk.newest_slot = rows.slot;
  if (running->on_device) chunk.choose = ChoiceOf(*s.state, running->end(), rows.slot);
  chunks_.push_back(chunk);
}

void ModelExecutor::AddChunks(const StepPlan& plan) {
  chunks_.clear();
  if (speculation_ != nullptr) speculation_->Plan(plan.number, draft_entries_, PromptRows(plan));
  int64_t logits = 0;
  for (Running& running : running_) {
    AddChunk(plan.rows[running.entry], &running);
    running.first_logits = logits;
    logits += running.logits;
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
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    SequenceResult& r = (*sequences)[i];
    r.slot = plan.rows[i].slot;
    r.sequence = plan.rows[i].sequence;
    r.status = AddEntry(plan, i, launch);
    // A sequence that cannot go on must not run later plans either.
    if (!r.status.ok() && slot(r.slot).sequence == r.sequence) slot(r.slot).status = r.status;
  }
  AddChunks(plan);
}

// Nothing in it needs what the host has not seen yet, or more logits than a launch brings.
bool ModelExecutor::MayLaunch(const StepPlan& plan) const {
  if (speculation_ != nullptr || flights_.size() >= kMostFlights) return false;
  const auto wants_logprobs = [](const step::SequenceStart& start) {
    return start.sampling.prompt_logprobs >= 0;
  };
  if (std::any_of(plan.starts.begin(), plan.starts.end(), wants_logprobs)) return false;
  int64_t logits = 0;
  for (const SequenceRows& rows : plan.rows) {
    const Slot& s = slot(rows.slot);
    logits += rows.sample ? 1 : 0;
    if (s.sequence != rows.sequence || s.state == nullptr) continue;  // it begins with this plan
    if (WantsPromptLogprobs(rows, *s.state)) return false;
    if (!rows.known_tokens && s.host_pending > 0) return false;
  }
  return model_->CanLaunch(logits);
}

void ModelExecutor::CountPending(const StepPlan& plan, int64_t change) {
  for (const Running& running : running_) {
    const SequenceRows& rows = plan.rows[running.entry];
    Slot& s = slot(rows.slot);
    if (!rows.sample || s.sequence != rows.sequence) continue;
    (running.on_device ? s.device_pending : s.host_pending) += change;
  }
}

bool ModelExecutor::Launch(const StepPlan& plan) {
  if (!MayLaunch(plan)) return false;
  Flight flight;
  flight.number = plan.number;
  BeginPlan(plan, true, &flight.sequences);
  if (!chunks_.empty()) flight.status = model_->Launch(chunks_);
  if (!flight.status.ok()) running_.clear();
  CountPending(plan, 1);
  SaveCheckpoints(plan, &flight.sequences);
  flight.running = running_;
  flights_.push_back(std::move(flight));
  return true;
}

bool ModelExecutor::Done() {
  return flights_.empty() || flights_.front().running.empty() || model_->Done();
}

// The oldest launched step comes home.
Status ModelExecutor::Land(const StepPlan& plan, StepResult* result) {
  Flight flight = std::move(flights_.front());
  flights_.pop_front();
  TW_CHECK_EQ(flight.number, plan.number);
  running_ = std::move(flight.running);
  result->sequences = std::move(flight.sequences);
  CountPending(plan, -1);
  if (!flight.status.ok() || running_.empty()) return flight.status;
  return model_->Collect(&output_);
}

void ModelExecutor::SaveCheckpoints(const StepPlan& plan, std::vector<SequenceResult>* sequences) {
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const SequenceRows& rows = plan.rows[i];
    SequenceResult& own = (*sequences)[i];
    if (rows.save_checkpoint < 0 || !own.status.ok()) continue;
    const kvpool::SequenceId id = slot(rows.slot).id;
    own.saved = rows.save_at == 0 || rows.save_at == model_->pool().length(id);
    if (own.saved) model_->pool().SaveCheckpoint(id, rows.save_checkpoint);
  }
}

// Rows whose tokens were not known when their state was saved: they are now.
void ModelExecutor::LearnCheckpoints(const StepPlan& plan) {
  for (const Running& running : running_) {
    const SequenceRows& rows = plan.rows[running.entry];
    const Slot& s = slot(rows.slot);
    if (rows.save_checkpoint < 0 || !running.newest || !s.status.ok()) continue;
    model_->LearnInCheckpoint(rows.save_checkpoint, running.start,
                              s.state->tokens()[static_cast<size_t>(running.start)]);
  }
}

void ModelExecutor::Execute(const StepPlan& plan, StepResult* result) {
  const double begin = Now();
  result->Clear();
  result->number = plan.number;
  const bool launched = !flights_.empty();
  if (launched) {
    result->status = Land(plan, result);
  } else {
    BeginPlan(plan, false, &result->sequences);
    result->status = chunks_.empty() ? Status() : model_->Step(chunks_, &output_);
  }
  if (result->status.ok()) {
    if (launched) LearnCheckpoints(plan);
    Sample(plan, result);
    if (!launched) SaveCheckpoints(plan, &result->sequences);
    if (speculation_ != nullptr) result->status = DraftNext(result);
  }
  result->execute_seconds = Now() - begin;
}

}  // namespace thalweg::exec
