#include "spec/draft_planner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "spec/confidence.h"

namespace thalweg::spec {
namespace {

constexpr uint64_t kLag = 2;         // results of step t count from t + kLag on
constexpr uint64_t kStaleSteps = 6;  // confidences older than that say less than the record

}  // namespace

DraftPlanner::DraftPlanner(CostTable costs, PlannerOptions options)
    : costs_(std::move(costs)),
      options_(std::move(options)),
      shift_(options_.slots),
      typical_(options_.slots, SurvivalRecord::kTypicalShare) {
  TW_CHECK(options_.slots >= 1);
}

void DraftPlanner::Begin(uint64_t sequence) {
  TW_CHECK(records_.emplace(sequence, Record{.survival = typical_.ForSequence(), .life = ++lives_})
               .second);
}

void DraftPlanner::End(uint64_t sequence) { records_.erase(sequence); }

std::span<const double> DraftPlanner::Survivals(const Record& record, uint64_t step) const {
  const bool fresh = record.stale_step > 0 && record.stale_step + kStaleSteps >= step;
  return fresh ? std::span<const double>(record.stale) : record.survival.survival();
}

Budget DraftPlanner::Choose(const StepLoad& load, std::span<const double> survivals) const {
  if (options_.variable) return ChooseBudget(costs_, load, survivals);
  return BudgetOf(costs_, load, survivals, load.max_drafts);
}

StepDrafts DraftPlanner::Plan(uint64_t step, std::span<const PlannedSequence> sequences,
                              int64_t other_rows, int64_t max_drafts) {
  TakeUpTo(step);
  StepDrafts plan = {.context = load_gate_.context()};
  if (sequences.empty()) return plan;
  StepLoad load = {.other_rows = other_rows, .max_drafts = max_drafts};
  int64_t decoding = 0;  // of those that are drafted for
  std::vector<double> could,
      can;  // if every willing sequence had a block; of blocks that are there
  bool listens = false;
  for (const PlannedSequence& s : sequences) {
    Record& record = records_.at(s.sequence);
    (s.decodes ? load.sequences : load.other_samples) += 1;
    const auto slots = static_cast<int64_t>(options_.slots);
    const auto most = std::clamp<int64_t>(s.tokens_left - 1, 0, slots);
    const bool willing = s.tokens_left > 1 && record.gate.Step();
    const auto survivals = Survivals(record, step).first(static_cast<size_t>(most));
    plan.draft.push_back(willing ? 1 : 0);
    plan.most.push_back(record.has_block ? static_cast<int32_t>(most) : 0);
    load.drafting += willing ? 1 : 0;
    decoding += willing && s.decodes ? 1 : 0;
    listens |= s.tokens_left > 1 && record.gate.listens();
    if (willing && s.decodes) could.insert(could.end(), survivals.begin(), survivals.end());
    if (record.has_block) can.insert(can.end(), survivals.begin(), survivals.end());
  }
  // What decodes drafts and verifies: blocks of prompts that end here are worth nothing yet.
  StepLoad steady = load;
  steady.drafting = decoding;
  const LoadGate::Answer answer = load_gate_.Step(Choose(steady, could));
  plan.context = answer.context && listens;
  if (!answer.draft) std::fill(plan.draft.begin(), plan.draft.end(), uint8_t{0});
  if (!answer.draft) load.drafting = 0;
  plan.budget = Choose(load, can);
  for (size_t i = 0; i < sequences.size(); ++i)
    records_.at(sequences[i].sequence).has_block = plan.draft[i] != 0;
  return plan;
}

// 0: it has ended.
uint64_t DraftPlanner::LifeOf(uint64_t sequence) const {
  const auto found = records_.find(sequence);
  return found == records_.end() ? 0 : found->second.life;
}

void DraftPlanner::Observe(uint64_t step, std::span<const DraftOutcome> outcomes) {
  TW_CHECK(pending_.empty() || pending_.back().step <= step);
  const bool some = std::any_of(outcomes.begin(), outcomes.end(),
                                [](const DraftOutcome& o) { return o.verified > 0; });
  for (const DraftOutcome& o : outcomes) {
    Pending p = {.step = step,
                 .sequence = o.sequence,
                 .life = LifeOf(o.sequence),
                 .verified = o.verified,
                 .accepted = o.accepted,
                 .had_chance = some && !o.verified_confidences.empty(),
                 .next_confidences = {o.next_confidences.begin(), o.next_confidences.end()}};
    for (size_t k = 0; k < o.verified_confidences.size(); ++k) {
      const double t = k < options_.temperatures.size() ? options_.temperatures[k] : 1;
      p.verified_confidences.push_back(Confidence(o.verified_confidences[k], t, 0));
    }
    pending_.push_back(std::move(p));
  }
}

void DraftPlanner::TakeUpTo(uint64_t step) {
  for (; !pending_.empty() && pending_.front().step + kLag <= step; pending_.pop_front())
    Take(pending_.front());
}

void DraftPlanner::Take(const Pending& p) {
  const auto verified = std::min<int64_t>(
      p.verified, static_cast<int64_t>(std::min(p.verified_confidences.size(), options_.slots)));
  const int64_t accepted = std::min(p.accepted, verified);
  shift_.Observe(p.verified_confidences, verified, accepted);
  typical_.Observe(verified, accepted);
  const auto found = records_.find(p.sequence);
  if (found == records_.end() || found->second.life != p.life) return;
  Record& record = found->second;
  if (p.had_chance) record.gate.Observe(accepted);
  record.survival.Observe(verified, accepted);
  if (p.next_confidences.empty()) return;
  record.stale.resize(options_.slots);
  const auto used = std::min(p.next_confidences.size(), options_.slots);
  spec::Survivals(std::span(p.next_confidences).first(used), options_.temperatures, shifts(),
                  record.stale);
  record.stale_step = p.step;
  record.survival.Predict(record.stale);
}

}  // namespace thalweg::spec
