// Steps beside a device that chooses tokens: what is launched when, and what becomes of what came.
#include <fmt/format.h>

#include <algorithm>

#include "exec/model_executor.h"

namespace thalweg::exec {

using step::SequenceResult;
using step::SequenceRows;
using step::StepPlan;
using step::StepResult;

namespace {

constexpr size_t kMostFlights = 2;

// Where the mask lets the text end, an end token that is ignored is no end (sampling/process.cc).
std::shared_ptr<const std::vector<uint32_t>> WithoutEnds(
    const std::shared_ptr<const std::vector<uint32_t>>& mask, const step::SamplingParams& params) {
  if (mask == nullptr || !params.ignore_eos) return mask;
  auto changed = std::make_shared<std::vector<uint32_t>>(*mask);
  for (const int32_t token : params.end_tokens)
    (*changed)[static_cast<size_t>(token) / 32] &= ~(1u << (token % 32));
  return changed;
}

}  // namespace

// Whether a step behind the newest launched one may be made: its masks have to be on their way, and
// where it verifies drafts the host has to know how many there are. false: too many are under way.
bool ModelExecutor::KnowsEnough() {
  if (flights_.size() >= kMostFlights) return false;
  if (flights_.empty()) return true;
  Flight& before = flights_.back();
  if (!before.chosen) ChooseTokens(&before);
  const bool confidences = before.drafts && device_drafts_->needs_confidences();
  if (before.verifies || confidences) Land(&before);
  return !confidences || CollectDrafts().ok();
}

// Nothing in it needs what the host has not seen yet, or more logits than a launch brings.
bool ModelExecutor::MayLaunch(const StepPlan& plan) const {
  if (speculation_ != nullptr) return false;
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

void ModelExecutor::CountPending(const Flight& flight, int64_t change) {
  for (const Running& running : flight.running) {
    const SequenceRows& rows = flight.rows[running.entry];
    Slot& s = slot(rows.slot);
    if (!rows.sample || s.sequence != rows.sequence) continue;
    (running.on_device ? s.device_pending : s.host_pending) += change;
  }
}

bool ModelExecutor::Launch(const StepPlan& plan) {
  if (!KnowsEnough() || !MayLaunch(plan)) return false;
  Flight flight;
  flight.rows = plan.rows;
  flight.result.number = plan.number;
  BeginPlan(plan, true, &flight.result.sequences);
  if (!chunks_.empty()) flight.result.status = model_->Launch(chunks_);
  if (!flight.result.status.ok()) running_.clear();
  flight.running = running_;
  const auto any = [&](bool Running::*what) {
    return std::any_of(running_.begin(), running_.end(),
                       [&](const Running& running) { return running.*what; });
  };
  flight.verifies = any(&Running::verifies);
  flight.drafts = any(&Running::drafts_behind);
  CountPending(flight, 1);
  if (!flight.verifies) SaveCheckpoints(flight.rows, &flight.result.sequences);
  const bool masked = any(&Running::masked);
  flights_.push_back(std::move(flight));
  if (!masked) ChooseTokens(&flights_.back());
  return true;
}

// Tokens of the step that was launched last. Masks were being made since the step before it landed.
void ModelExecutor::ChooseTokens(Flight* flight) {
  flight->chosen = true;
  if (flight->running.empty()) return;
  const std::vector<model::RowMask> masks = MasksOf(flight);
  model_->Choose({.masks = masks, .draft = draft_behind_});
}

std::vector<model::RowMask> ModelExecutor::MasksOf(Flight* flight) {
  const std::vector<Running>& running = flight->running;
  if (std::none_of(running.begin(), running.end(), [](const Running& r) { return r.masked; }))
    return {};
  const Status drafts = CollectDrafts();
  if (!drafts.ok()) flight->result.status = drafts;
  const auto rows = static_cast<size_t>(running.back().first_logits + running.back().logits);
  std::vector<model::RowMask> masks(rows);
  flight->next.resize(rows);
  const auto wait = [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const Running& r = running[i];
      if (!r.masked) continue;
      MaskRows(r, flight,
               std::span(masks).subspan(static_cast<size_t>(r.first_logits),
                                        static_cast<size_t>(r.logits)));
    }
  };
  model_->options().team->ParallelFor(static_cast<int64_t>(running.size()), 1, wait);
  return masks;
}

Result<std::vector<NextTokens>> ModelExecutor::NextOf(const Running& running, int32_t number) {
  TokenMasks* masks = slot(number).masks.get();
  if (running.verifies) {
    return masks->WaitAlong(
        device_drafts_->tokens(number).first(static_cast<size_t>(running.count - 1)));
  }
  TW_ASSIGN(NextTokens next, masks->Wait());
  return std::vector<NextTokens>{std::move(next)};
}

void ModelExecutor::MaskRows(const Running& running, Flight* flight,
                             std::span<model::RowMask> rows) {
  SequenceResult& own = flight->result.sequences[running.entry];
  auto next = NextOf(running, own.slot);
  if (!next.ok() && own.status.ok()) own.status = next.status();
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].reached = next.ok() && i < next->size();
    if (!rows[i].reached) continue;
    NextTokens& kept = flight->next[static_cast<size_t>(running.first_logits) + i];
    kept = std::move((*next)[i]);
    kept.mask = WithoutEnds(kept.mask, slot(own.slot).state->params());
    rows[i].words = kept.mask != nullptr ? kept.mask->data() : nullptr;
  }
}

bool ModelExecutor::Done() {
  if (flights_.empty()) return true;
  Flight& flight = flights_.front();
  if (flight.landed || flight.running.empty()) return true;
  if (!flight.chosen) ChooseTokens(&flight);
  if (model_->HasDrafts()) {
    if (!model_->Done()) return false;
    if (!CollectDrafts().ok()) return true;
  }
  return model_->Done();
}

// Those behind the step that landed last, if the device made any.
Status ModelExecutor::CollectDrafts() {
  if (!model_->HasDrafts()) return {};
  TW_TRY(model_->CollectDrafts(&launched_drafts_));
  device_drafts_->Drafted(launched_drafts_);
  return {};
}

// A launched step comes home: the oldest that has not.
void ModelExecutor::Land(Flight* flight) {
  if (flight->landed) return;
  flight->landed = true;
  if (!flight->chosen) ChooseTokens(flight);
  CountPending(*flight, -1);
  StepResult& result = flight->result;
  const Status drafts = CollectDrafts();
  if (result.status.ok()) result.status = drafts;
  if (!flight->running.empty()) {
    const Status collected = model_->Collect(&output_);
    if (result.status.ok()) result.status = collected;
  }
  running_ = flight->running;
  if (result.status.ok()) {
    if (!flight->verifies) LearnCheckpoints(flight->rows);
    Sample(flight->rows, flight, &result);
    if (flight->verifies) SaveCheckpoints(flight->rows, &result.sequences);
  }
  if (device_drafts_ != nullptr) device_drafts_->Landed(result.number, model_->HasDrafts());
}

// Rows whose tokens were not known when their state was saved: they are now.
void ModelExecutor::LearnCheckpoints(std::span<const SequenceRows> all) {
  for (const Running& running : running_) {
    const SequenceRows& rows = all[running.entry];
    const Slot& s = slot(rows.slot);
    if (rows.save_checkpoint < 0 || !running.newest || !s.status.ok()) continue;
    model_->LearnInCheckpoint(rows.save_checkpoint, running.start,
                              s.state->tokens()[static_cast<size_t>(running.start)]);
  }
}

int64_t ModelExecutor::AcceptedOf(const Running& running) const {
  return running.verifies ? output_.accepted[running.choice] : 0;
}

// The token that the device chose behind row `row` of those with logits.
Result<sampling::RowSample> ModelExecutor::ChosenSample(const Running& running,
                                                        const Flight& flight, int64_t row) const {
  const auto at = static_cast<size_t>(running.first_logits + row);
  const int32_t token = output_.chosen[at];
  const int64_t position = running.first_token() + row;
  if (token == kernels::kNotFinite) {
    return base::Internal(
        fmt::format("position {}: the logits of the model are not finite", position));
  }
  if (token == kernels::kNothingLeft && flight.next.at(at).complete)
    return sampling::RowSample{.fulfilled = true};
  if (token == kernels::kNothingLeft) {
    return base::InvalidArgument(fmt::format(
        "position {}: no token is left to choose: so_args exclude every one; allow more of them",
        position));
  }
  TW_CHECK_GE(token, 0);
  const int32_t number = flight.rows[running.entry].slot;
  return sampling::RowSample{.token = token, .end = slot(number).state->EndOf(token)};
}

// Tokens that come out, one behind the other, until one ends the sequence.
std::vector<int32_t> ModelExecutor::TakeTokens(const Running& running, const Flight& flight,
                                               Slot* s, StepResult* result) {
  SequenceResult& own = result->sequences[running.entry];
  std::vector<int32_t> came;
  if (own.status.ok()) own.status = s->status;  // of a step before, seen after the launch
  for (int64_t row = 0; row <= AcceptedOf(running) && own.status.ok(); ++row) {
    auto sample = ChosenSample(running, flight, row);
    if (!sample.ok()) {
      own.status = sample.status();
      break;
    }
    Keep(&*sample, s, &own, result);
    if (own.fulfilled) return came;
    s->state->Append(sample->token);
    came.push_back(sample->token);
    if (sample->end != step::TokenEnd::kNone) break;
  }
  if (!own.status.ok()) s->status = own.status;
  return came;
}

void ModelExecutor::TakeChosen(const Running& running, const Flight& flight, StepResult* result) {
  SequenceResult& own = result->sequences[running.entry];
  Slot& s = slot(own.slot);
  const std::vector<int32_t> came = TakeTokens(running, flight, &s, result);
  if (s.masks != nullptr && !came.empty()) s.masks->Accept(came);
  const int64_t known = static_cast<int64_t>(s.state->tokens().size());
  if (running.verifies) {
    own.drafted = static_cast<int32_t>(running.count - 1);
    const Status back = model_->pool().Truncate(s.id, std::min(running.end(), known - 1));
    if (!back.ok() && own.status.ok()) s.status = own.status = back;
  }
  for (size_t i = 0; i < came.size(); ++i) {
    const int64_t position = running.first_token() + static_cast<int64_t>(i);
    if (model_->pool().length(s.id) > position) model_->Learn(s.id, position, came[i]);
  }
  if (running.entry_of_drafts == Running::kNoDrafts) return;
  device_drafts_->Verified(running.entry_of_drafts, running.verifies ? running.count - 1 : 0,
                           AcceptedOf(running));
  const bool goes_on = own.status.ok() && static_cast<int64_t>(came.size()) > AcceptedOf(running);
  if (!goes_on) {
    device_drafts_->Drop(own.slot);
  } else if (running.verifies && running.drafts_behind) {
    device_drafts_->Stands(own.slot, known - 1);
  }
}

}  // namespace thalweg::exec
