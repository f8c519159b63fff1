// What a step's logits become: tokens, of rows alone and of blocks of drafts.
#include <fmt/format.h>

#include <algorithm>

#include "exec/model_executor.h"

namespace thalweg::exec {

using step::SequenceResult;
using step::SequenceRows;
using step::StepResult;

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

void ModelExecutor::Sample(std::span<const SequenceRows> all, const Flight* flight,
                           StepResult* result) {
  sample_rows_.clear();
  sample_running_.clear();
  for (size_t i = 0; i < running_.size(); ++i) {
    const Running& running = running_[i];
    const SequenceRows& rows = all[running.entry];
    const Slot& s = slot(rows.slot);
    if (running.prompt_logprobs)
      TakePromptLogprobs(rows, running, &result->sequences[running.entry]);
    if (running.on_device) TakeChosen(running, *flight, result);
    if (!rows.sample || running.verifies || running.on_device) continue;
    sample_rows_.push_back({.logits = Logits(running.first_logits + running.logits - 1),
                            .state = s.state.get(),
                            .position = running.end(),
                            .processor = s.processor.get()});
    sample_running_.push_back(i);
  }
  WaitForMasks(result);
  sampling::SampleRows(*model_->options().team, sample_rows_, &scratch_, &samples_);
  for (size_t i = 0; i < sample_running_.size(); ++i)
    TakeSample(running_[sample_running_[i]], &samples_[i], result);
  if (speculation_ != nullptr) Judge(result);
}

// Masks that nobody has begun to make are made here, by the threads that would sample.
void ModelExecutor::WaitForMasks(StepResult* result) {
  next_tokens_.assign(sample_rows_.size(), {});
  const auto masks = [&](size_t i) {
    return slot(result->sequences[running_[sample_running_[i]].entry].slot).masks.get();
  };
  const auto wait = [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (masks(i) == nullptr) continue;
      Result<NextTokens> next = masks(i)->Wait();
      SequenceResult& r = result->sequences[running_[sample_running_[i]].entry];
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

void ModelExecutor::TakeSample(const Running& running, Result<sampling::RowSample>* sample,
                               StepResult* result) {
  SequenceResult& own = result->sequences[running.entry];
  Slot& s = slot(own.slot);
  if (own.status.ok()) own.status = s.status;  // of a step before, seen after the launch
  if (!own.status.ok() || !sample->ok()) {
    if (own.status.ok()) own.status = sample->status();
    s.status = own.status;
    return;
  }
  sampling::RowSample& made = sample->value();
  Keep(&made, &s, &own, result);
  if (made.fulfilled) return;
  s.state->Append(made.token);
  if (s.masks != nullptr) s.masks->Accept({&made.token, 1});
  if (model_->pool().length(s.id) > running.end()) model_->Learn(s.id, running.end(), made.token);
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
  if (s.masks != nullptr && own.tokens_count > 0) {
    std::vector<int32_t> tokens;
    for (const step::SampledToken& token : result->TokensOf(own)) tokens.push_back(token.token);
    s.masks->Accept(tokens);
  }
  const auto known = static_cast<int64_t>(s.state->tokens().size());
  const Status back = model_->pool().Truncate(s.id, std::min(running.end(), known - 1));
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

}  // namespace thalweg::exec
