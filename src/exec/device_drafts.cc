#include "exec/device_drafts.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace thalweg::exec {

DeviceDrafts::DeviceDrafts(model::Model* model, DraftOptions options)
    : model_(model),
      options_(std::move(options)),
      slots_(static_cast<size_t>(model->options().max_sequences)) {
  if (!options_.costs.has_value()) return;
  planner_.emplace(spec::CostTable(*options_.costs),
                   spec::PlannerOptions{.slots = static_cast<size_t>(options_.drafts),
                                        .variable = options_.variable,
                                        .temperatures = options_.temperatures});
}

DeviceDrafts::~DeviceDrafts() { LogDrafting(planner_); }

void DeviceDrafts::Begin(int32_t slot, uint64_t sequence) {
  At(slot) = {.sequence = sequence};
  if (planner_.has_value()) planner_->Begin(sequence);
}

void DeviceDrafts::End(int32_t slot) {
  Slot& s = At(slot);
  if (planner_.has_value() && s.sequence != 0) planner_->End(s.sequence);
  s = {};
}

void DeviceDrafts::Plan(uint64_t step, std::span<const DeviceDraftEntry> entries,
                        int64_t other_rows, int64_t room) {
  const auto count = static_cast<int64_t>(entries.size());
  const int64_t each = count > 0 ? std::min(options_.drafts, room / count) : 0;
  wanted_.clear();
  for (const DeviceDraftEntry& e : entries) {
    const Slot& s = At(e.slot);
    const bool follows = e.decodes && s.sequence == e.sequence && s.position == e.position;
    LengthEntry wanted{.sequence = e.sequence, .decodes = e.decodes, .tokens_left = e.tokens_left};
    wanted.room = static_cast<int32_t>(std::min(each, e.most));
    if (follows) wanted.most = wanted.room;
    if (follows && options_.variable) wanted.confidences = s.confidences;
    wanted_.push_back(wanted);
  }
  lengths_ = ChooseLengths(options_, &planner_, step, wanted_, other_rows);
  NoteStep(step, entries);
}

void DeviceDrafts::NoteStep(uint64_t step, std::span<const DeviceDraftEntry> entries) {
  Step noted{.number = step};
  for (size_t i = 0; i < entries.size(); ++i) {
    Outcome outcome{.slot = entries[i].slot, .sequence = entries[i].sequence};
    if (draft(i)) outcome.request = noted.requests++;
    At(entries[i].slot).position = -1;  // it is used, or behind
    noted.outcomes.push_back(std::move(outcome));
  }
  steps_.push_back(std::move(noted));
}

void DeviceDrafts::Stands(int32_t slot, int64_t position) { At(slot).position = position; }

void DeviceDrafts::Verified(size_t entry, int64_t verified, int64_t accepted) {
  Outcome& o = steps_.front().outcomes[entry];
  const Slot& s = At(o.slot);
  o.verified = verified;
  o.accepted = accepted;
  if (verified > 0 && s.sequence == o.sequence) o.confidences = s.confidences;
}

void DeviceDrafts::Landed(uint64_t step, bool drafts) {
  TW_CHECK(!steps_.empty() && steps_.front().number == step);
  if (!drafts) ObserveOldest();
}

void DeviceDrafts::Drafted(model::LaunchedDrafts drafts) {
  TW_CHECK(!steps_.empty() && steps_.front().requests > 0);
  drafts_ = std::move(drafts);
  const auto used = static_cast<size_t>(options_.drafts);
  for (const Outcome& o : steps_.front().outcomes) {
    Slot& s = At(o.slot);
    if (o.request < 0 || s.sequence != o.sequence) continue;
    s.confidences.resize(used);
    for (size_t k = 0; k < used; ++k) {
      const auto row = static_cast<int64_t>(k) * drafts_.sequences + o.request;
      s.confidences[k] = drafts_.confidence[static_cast<size_t>(row)];
    }
  }
  ObserveOldest();
}

std::span<const int32_t> DeviceDrafts::tokens(int32_t slot) const {
  const auto block = static_cast<size_t>(model_->config().dspark_block_size);
  return std::span(drafts_.tokens).subspan(static_cast<size_t>(slot) * block, block);
}

void DeviceDrafts::ObserveOldest() {
  const Step step = std::move(steps_.front());
  steps_.pop_front();
  if (!planner_.has_value()) return;
  std::vector<spec::DraftOutcome> outcomes;
  for (const Outcome& o : step.outcomes) {
    const Slot& s = At(o.slot);
    const bool made = o.request >= 0 && s.sequence == o.sequence;
    outcomes.push_back({.sequence = o.sequence,
                        .verified = o.verified,
                        .accepted = o.accepted,
                        .verified_confidences = o.confidences,
                        .next_confidences = made ? std::span<const float>(s.confidences)
                                                 : std::span<const float>()});
  }
  planner_->Observe(step.number, outcomes);
}

}  // namespace thalweg::exec
