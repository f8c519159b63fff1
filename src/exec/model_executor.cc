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
  const bool newest = rows.known_tokens ? s.device_pending == 0 : rows.count == 1 && end == known;
  if (rows.count < 1 || rows.start != length || end > known || !newest) {
    return base::Internal(
        fmt::format("rows [{}, {}) of sequence {}, which has {} of {} tokens done", rows.start, end,
                    rows.sequence, length, known));
  }
  return {};
}

Status ModelExecutor::AddRows(const StepPlan& plan, size_t entry, bool launch) {
  static constexpr int32_t kAnyToken = 0;
  const SequenceRows& rows = plan.rows[entry];
  TW_TRY(CheckRows(rows));
  const Slot& s = slot(rows.slot);
  const auto blocks = std::span(plan.blocks)
                          .subspan(static_cast<size_t>(rows.new_blocks_begin),
                                   static_cast<size_t>(rows.new_blocks_count));
  TW_TRY(model_->pool().Attach(s.id, blocks));
  Running running{.entry = entry,
                  .all_logits = WantsPromptLogprobs(rows, *s.state),
                  .on_device = launch && rows.sample && DeviceMayChoose(*s.state),
                  .newest = s.device_pending > 0};
  if (!running_.empty()) {
    const Running& last = running_.back();
    running.first_logits = last.first_logits + LogitCount(plan.rows[last.entry], last.all_logits);
  }
  const auto first = static_cast<size_t>(rows.start), count = static_cast<size_t>(rows.count);
  model::Chunk chunk{
      .sequence = s.id,
      .tokens = running.newest ? std::span(&kAnyToken, 1) : s.state->tokens().subspan(first, count),
      .decoder_from = s.decoder_from,
      .logits = running.all_logits ? model::LogitRows::kAll
                : rows.sample      ? model::LogitRows::kLast
                                   : model::LogitRows::kNone};
  if (running.newest) chunk.newest_slot = rows.slot;
  if (running.on_device) chunk.choose = ChoiceOf(*s.state, rows.start + rows.count, rows.slot);
  chunks_.push_back(chunk);
  running_.push_back(running);
  return {};
}

int64_t ModelExecutor::LogitCount(const SequenceRows& rows, bool all) {
  return all ? rows.count : rows.sample ? 1 : 0;
}

// Slots closed and begun, and the chunks of the rows that can run.
void ModelExecutor::BeginPlan(const StepPlan& plan, bool launch,
                              std::vector<SequenceResult>* sequences) {
  sequences->assign(plan.rows.size(), {});
  for (const int32_t number : plan.closes) Close(number);
  for (const step::SequenceStart& start : plan.starts) Start(start);
  chunks_.clear();
  running_.clear();
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    SequenceResult& r = (*sequences)[i];
    r.slot = plan.rows[i].slot;
    r.sequence = plan.rows[i].sequence;
    r.status = AddRows(plan, i, launch);
    // A sequence that cannot go on must not run later plans either.
    if (!r.status.ok() && slot(r.slot).sequence == r.sequence) slot(r.slot).status = r.status;
  }
}

// Nothing in it needs what the host has not seen yet, or more logits than a launch brings.
bool ModelExecutor::MayLaunch(const StepPlan& plan) const {
  if (flights_.size() >= kMostFlights) return false;
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
  SaveCheckpoints(plan);
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

std::span<float> ModelExecutor::Logits(int64_t row) {
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  return std::span(output_.logits).subspan(static_cast<size_t>(row) * vocab, vocab);
}

void ModelExecutor::TakePromptLogprobs(const SequenceRows& rows, const Running& running,
                                       SequenceResult* result) {
  const sampling::SequenceState& state = *slot(rows.slot).state;
  for (int64_t i = 0; i < rows.count; ++i) {
    const int64_t next = rows.start + i + 1;
    if (next >= state.prompt_tokens()) return;
    auto made = sampling::PromptLogprobs(Logits(running.first_logits + i),
                                         state.tokens()[static_cast<size_t>(next)],
                                         state.params().prompt_logprobs);
    if (!made.ok()) {
      result->status = made.status();
      return;
    }
    result->prompt_logprobs.push_back(std::move(*made));
  }
}

void ModelExecutor::Sample(const StepPlan& plan, StepResult* result) {
  sample_rows_.clear();
  sample_entries_.clear();
  for (const Running& running : running_) {
    const SequenceRows& rows = plan.rows[running.entry];
    const Slot& s = slot(rows.slot);
    if (running.all_logits) TakePromptLogprobs(rows, running, &result->sequences[running.entry]);
    if (!rows.sample) continue;
    if (running.on_device) {
      TakeChosen(plan, running, &result->sequences[running.entry]);
      continue;
    }
    const int64_t last = running.first_logits + LogitCount(rows, running.all_logits) - 1;
    sample_rows_.push_back({.logits = Logits(last),
                            .state = s.state.get(),
                            .position = rows.start + rows.count,
                            .processor = s.processor.get()});
    sample_entries_.push_back(running.entry);
  }
  WaitForMasks(result);
  sampling::SampleRows(*model_->options().team, sample_rows_, &scratch_, &samples_);
  for (size_t i = 0; i < sample_entries_.size(); ++i)
    TakeSample(sample_rows_[i].position, &samples_[i], &result->sequences[sample_entries_[i]]);
}

void ModelExecutor::TakeChosen(const StepPlan& plan, const Running& running,
                               SequenceResult* result) {
  const SequenceRows& rows = plan.rows[running.entry];
  const int64_t position = rows.start + rows.count;
  const int32_t token = output_.chosen[static_cast<size_t>(running.first_logits)];
  Result<sampling::RowSample> sample = sampling::RowSample{.token = token};
  if (token == kernels::kNotFinite) {
    sample = base::Internal(
        fmt::format("position {}: the logits of the model are not finite", position));
  } else {
    sample->end = slot(rows.slot).state->EndOf(token);
  }
  TakeSample(position, &sample, result);
}

// Masks that nobody has begun to make are made here, by the threads that would sample.
void ModelExecutor::WaitForMasks(StepResult* result) {
  next_tokens_.assign(sample_rows_.size(), {});
  const auto masks = [&](size_t i) {
    return slot(result->sequences[sample_entries_[i]].slot).masks.get();
  };
  const auto wait = [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (masks(i) == nullptr) continue;
      Result<NextTokens> next = masks(i)->Wait();
      SequenceResult& r = result->sequences[sample_entries_[i]];
      if (!next.ok()) {
        if (r.status.ok()) r.status = next.status();
        continue;
      }
      next_tokens_[i] = std::move(*next);
      if (next_tokens_[i].mask != nullptr) sample_rows_[i].mask.words = *next_tokens_[i].mask;
      sample_rows_[i].mask.complete = next_tokens_[i].complete;
    }
  };
  bool any = false;
  for (size_t i = 0; i < sample_rows_.size(); ++i) any |= masks(i) != nullptr;
  if (any) model_->options().team->ParallelFor(static_cast<int64_t>(sample_rows_.size()), 1, wait);
}

void ModelExecutor::TakeSample(int64_t position, Result<sampling::RowSample>* sample,
                               SequenceResult* result) {
  Slot& s = slot(result->slot);
  if (result->status.ok()) result->status = s.status;  // of a step before, seen after the launch
  if (!result->status.ok() || !sample->ok()) {
    if (result->status.ok()) result->status = sample->status();
    s.status = result->status;
    return;
  }
  sampling::RowSample& made = sample->value();
  result->end = made.end;
  if (made.end == step::TokenEnd::kFulfilled) {
    s.status = base::Internal("rows behind the end of a constrained sequence");
    return;
  }
  result->sampled = true;
  result->token = made.token;
  result->forced = made.forced;
  result->logprobs = std::move(made.logprobs);
  s.state->Append(made.token);
  if (model_->pool().length(s.id) > position) model_->Learn(s.id, position, made.token);
  if (s.masks != nullptr) s.masks->Accept(made.token);
}

void ModelExecutor::SaveCheckpoints(const StepPlan& plan) {
  for (const Running& running : running_) {
    const SequenceRows& rows = plan.rows[running.entry];
    if (rows.save_checkpoint >= 0)
      model_->pool().SaveCheckpoint(slot(rows.slot).id, rows.save_checkpoint);
  }
}

// Rows whose tokens were not known when their state was saved: they are now.
void ModelExecutor::LearnCheckpoints(const StepPlan& plan) {
  for (const Running& running : running_) {
    const SequenceRows& rows = plan.rows[running.entry];
    const Slot& s = slot(rows.slot);
    if (rows.save_checkpoint < 0 || !running.newest || !s.status.ok()) continue;
    model_->LearnInCheckpoint(rows.save_checkpoint, rows.start,
                              s.state->tokens()[static_cast<size_t>(rows.start)]);
  }
}

void ModelExecutor::Execute(const StepPlan& plan, StepResult* result) {
  const double begin = Now();
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
    if (!launched) SaveCheckpoints(plan);
  }
  result->execute_seconds = Now() - begin;
}

}  // namespace thalweg::exec
