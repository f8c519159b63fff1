#include "exec/model_executor.h"

#include <fmt/format.h>

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

ModelExecutor::~ModelExecutor() = default;

Status ModelExecutor::SetDrafts(const DraftOptions& options) {
  speculation_.reset();
  if (options.drafts == 0) return {};
  if (!model_->has_draft()) return base::Unsupported("the model was loaded without a draft module");
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
  const auto known = static_cast<int64_t>(s.state->tokens().size());
  const int64_t end = rows.start + rows.count;
  const bool fits = rows.known_tokens ? rows.start == length && end <= known
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

Status ModelExecutor::AddEntry(const StepPlan& plan, size_t entry) {
  const SequenceRows& rows = plan.rows[entry];
  TW_TRY(CheckRows(rows));
  const Slot& s = slot(rows.slot);
  const auto blocks = std::span(plan.blocks)
                          .subspan(static_cast<size_t>(rows.new_blocks_begin),
                                   static_cast<size_t>(rows.new_blocks_count));
  TW_TRY(model_->pool().Attach(s.id, blocks));
  Running running = {.entry = entry, .count = RowsToRun(rows)};
  if (running.count < 1) return {};
  running.prompt_logprobs = WantsPromptLogprobs(rows, *s.state);
  // The next token of a constrained sequence depends on masks that are made token by token.
  if (speculation_ != nullptr && rows.sample && s.masks == nullptr) {
    running.entry_of_drafts = draft_entries_.size();
    draft_entries_.push_back(
        {.slot = rows.slot,
         .sequence = rows.sequence,
         .id = s.id,
         .state = s.state.get(),
         .processor = s.processor.get(),
         .decodes = !rows.known_tokens,
         .tokens_left = s.row_limit + 1 - static_cast<int64_t>(s.state->tokens().size()),
         .most = rows.known_tokens ? 0 : running.count - 1});
  }
  if (!rows.known_tokens) running.count = 1;
  running_.push_back(running);
  return {};
}

void ModelExecutor::AddEntries(const StepPlan& plan, StepResult* result) {
  running_.clear();
  draft_entries_.clear();
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    SequenceResult& r = result->sequences[i];
    r.slot = plan.rows[i].slot;
    r.sequence = plan.rows[i].sequence;
    r.status = AddEntry(plan, i);
    // A sequence that cannot go on must not run later plans either.
    if (!r.status.ok() && slot(r.slot).sequence == r.sequence) slot(r.slot).status = r.status;
  }
}

std::span<const int32_t> ModelExecutor::TokensOf(const SequenceRows& rows,
                                                 const Running& running) const {
  if (running.verifies) return speculation_->Block(running.entry_of_drafts);
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
  const std::span<const int32_t> tokens = TokensOf(rows, *running);
  const model::LogitRows logits = LogitsWanted(rows, *running);
  running->count = static_cast<int64_t>(tokens.size());
  running->position = model_->pool().length(s.id) + running->count;
  running->logits = logits == model::LogitRows::kAll    ? running->count
                    : logits == model::LogitRows::kLast ? 1
                                                        : 0;
  chunks_.push_back(
      {.sequence = s.id, .tokens = tokens, .decoder_from = s.decoder_from, .logits = logits});
}

Status ModelExecutor::RunForward(const StepPlan& plan, StepResult* result) {
  AddEntries(plan, result);
  if (running_.empty()) return {};
  if (speculation_ != nullptr) speculation_->Plan(plan.number, draft_entries_, PromptRows(plan));
  chunks_.clear();
  int64_t logits = 0;
  for (Running& running : running_) {
    AddChunk(plan.rows[running.entry], &running);
    running.first_logits = logits;
    logits += running.logits;
  }
  return model_->Step(chunks_, &output_);
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
    if (running.prompt_logprobs)
      TakePromptLogprobs(rows, running, &result->sequences[running.entry]);
    if (!rows.sample || running.verifies) continue;
    sample_rows_.push_back({.logits = Logits(running.first_logits + running.logits - 1),
                            .state = s.state.get(),
                            .position = running.position,
                            .processor = s.processor.get()});
    sample_entries_.push_back(running.entry);
  }
  WaitForMasks(result);
  sampling::SampleRows(*model_->options().team, sample_rows_, &scratch_, &samples_);
  for (size_t i = 0; i < sample_entries_.size(); ++i)
    TakeSample(&samples_[i], &result->sequences[sample_entries_[i]], result);
  if (speculation_ != nullptr) Judge(result);
}

// Blocks of drafts: what is accepted stays, the rest has not happened.
void ModelExecutor::Judge(StepResult* result) {
  verify_logits_.assign(draft_entries_.size(), {});
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  for (const Running& running : running_) {
    if (!running.verifies) continue;
    verify_logits_[running.entry_of_drafts] =
        std::span(output_.logits)
            .subspan(static_cast<size_t>(running.first_logits) * vocab,
                     static_cast<size_t>(running.logits) * vocab);
  }
  speculation_->Judge(draft_entries_, verify_logits_, &scratch_);
  for (const Running& running : running_) {
    if (running.verifies) TakeVerdict(running, result);
  }
}

void ModelExecutor::TakeVerdict(const Running& running, StepResult* result) {
  spec::Accepted& accepted = speculation_->accepted(running.entry_of_drafts);
  SequenceResult& own = result->sequences[running.entry];
  Slot& s = slot(own.slot);
  own.drafted = static_cast<int32_t>(running.count - 1);
  for (sampling::RowSample& made : accepted.samples) Keep(&made, &s, &own, result);
  if (!accepted.status.ok()) s.status = own.status = accepted.status;
  const auto known = static_cast<int64_t>(s.state->tokens().size());
  const Status back = model_->pool().Truncate(s.id, std::min(running.position, known - 1));
  if (!back.ok() && own.status.ok()) s.status = own.status = back;
}

// What has ended, by itself or by its length, needs no drafts.
Status ModelExecutor::DraftNext(StepResult* result) {
  goes_on_.assign(draft_entries_.size(), 0);
  for (const Running& running : running_) {
    if (running.entry_of_drafts == Running::kNoDrafts) continue;
    const SequenceResult& own = result->sequences[running.entry];
    const auto tokens = result->TokensOf(own);
    const Slot& s = slot(own.slot);
    const auto known = static_cast<int64_t>(s.state->tokens().size());
    const bool goes_on = own.status.ok() && !own.fulfilled && !tokens.empty() &&
                         tokens.back().end == step::TokenEnd::kNone && known < s.row_limit;
    goes_on_[running.entry_of_drafts] = goes_on ? 1 : 0;
  }
  return speculation_->DraftNext(draft_entries_, goes_on_);
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

void ModelExecutor::TakeSample(Result<sampling::RowSample>* sample, SequenceResult* result,
                               StepResult* step) {
  Slot& s = slot(result->slot);
  if (!result->status.ok() || !sample->ok()) {
    if (result->status.ok()) result->status = sample->status();
    s.status = result->status;
    return;
  }
  sampling::RowSample& made = sample->value();
  Keep(&made, &s, result, step);
  if (!made.fulfilled) s.state->Append(made.token);
}

// A token that comes out.
void ModelExecutor::Keep(sampling::RowSample* made, Slot* slot, SequenceResult* own,
                         StepResult* result) {
  own->fulfilled = made->fulfilled;
  if (made->fulfilled) {
    slot->status = base::Internal("rows behind the end of a constrained sequence");
    return;
  }
  result->Append(own, {.token = made->token,
                       .end = made->end,
                       .forced = made->forced,
                       .logprobs = std::move(made->logprobs)});
  if (slot->masks != nullptr) slot->masks->Accept(made->token);
}

void ModelExecutor::SaveCheckpoints(const StepPlan& plan, StepResult* result) {
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const SequenceRows& rows = plan.rows[i];
    if (rows.save_checkpoint < 0 || !result->sequences[i].status.ok()) continue;
    const kvpool::SequenceId id = slot(rows.slot).id;
    bool& saved = result->sequences[i].saved;
    saved = rows.save_at == 0 || rows.save_at == model_->pool().length(id);
    if (saved) model_->pool().SaveCheckpoint(id, rows.save_checkpoint);
  }
}

void ModelExecutor::Execute(const StepPlan& plan, StepResult* result) {
  const double begin = Now();
  result->number = plan.number;
  result->Clear();
  result->sequences.resize(plan.rows.size());
  for (const int32_t number : plan.closes) Close(number);
  for (const step::SequenceStart& start : plan.starts) Start(start);
  result->status = RunForward(plan, result);
  if (result->status.ok()) {
    Sample(plan, result);
    SaveCheckpoints(plan, result);
    if (speculation_ != nullptr) result->status = DraftNext(result);
  }
  result->execute_seconds = Now() - begin;
}

}  // namespace thalweg::exec
