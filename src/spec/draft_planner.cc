#include "spec/draft_planner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "spec/confidence.h"

namespace thalweg::spec {
namespace {

constexpr uint64_t kLag = 2;           // results of step t count from t + kLag on
constexpr uint64_t kStaleSteps = 6;    // confidences older than that say less than the record
constexpr uint64_t kRecordSteps = 32;  // a record older than that says less than others' blocks
// With the few rows of context of a try, drafts are accepted that much less often.
constexpr double kFewRows = 1.15;
// Text that is easy: of nano's answers to its own prompts, 3.8 tokens a step.
constexpr double kEasyAcceptance = 0.83;
// Blocks of a try: some say little of whether text has become easy, many say no more.
constexpr int64_t kLeastTried = 4, kMostTried = 32;

}  // namespace

DraftPlanner::DraftPlanner(CostTable costs, PlannerOptions options)
    : costs_(std::move(costs)),
      options_(std::move(options)),
      shift_(options_.slots),
      typical_(options_.slots, SurvivalRecord::kTypicalShare),
      recent_(options_.slots, SurvivalRecord::kSequenceShare) {
  TW_CHECK(options_.slots >= 1);
}

void DraftPlanner::Begin(uint64_t sequence) {
  Record record = {.survival = typical_.ForSequence(), .life = ++lives_};
  if (load_gate_.open()) record.learned_step = step_ + 1;
  TW_CHECK(records_.emplace(sequence, std::move(record)).second);
}

void DraftPlanner::End(uint64_t sequence) { records_.erase(sequence); }

// Of confidences that are fresh, as far as they are to be trusted; else of what was observed.
void DraftPlanner::AddSurvivals(const Record& record, uint64_t step, size_t most,
                                std::vector<double>* out) const {
  const double trust = trust_.factor();
  if (record.stale_step > 0 && record.stale_step + kStaleSteps >= step) {
    for (size_t k = 0; k < most; ++k) out->push_back(std::min(1.0, record.stale[k] * trust));
    return;
  }
  const bool own = record.learned_step > 0 && record.learned_step + kRecordSteps >= step;
  const auto known = (own ? record.survival : recent_).survival();
  double more = 1;
  for (size_t k = 0; k < most; ++k) {
    if (tried_text_) more *= kFewRows;
    out->push_back(std::min(1.0, known[k] * more));
  }
}

Budget DraftPlanner::Choose(const StepLoad& load, std::span<const double> survivals) const {
  if (options_.variable) return ChooseBudget(costs_, load, survivals);
  return BudgetOf(costs_, load, survivals, load.max_drafts);
}

DraftPlanner::Prospect DraftPlanner::Look(uint64_t step, std::span<const PlannedSequence> sequences,
                                          StepDrafts* plan) {
  Prospect p;
  for (const PlannedSequence& s : sequences) {
    Record& record = records_.at(s.sequence);
    (s.decodes ? p.load.sequences : p.load.other_samples) += 1;
    const auto slots = static_cast<int64_t>(options_.slots);
    const auto most = std::clamp<int64_t>(s.tokens_left - 1, 0, slots);
    const bool willing = s.tokens_left > 1 && record.gate.Step();
    plan->draft.push_back(willing ? 1 : 0);
    plan->most.push_back(record.has_block ? static_cast<int32_t>(most) : 0);
    p.decoding += willing && s.decodes ? 1 : 0;
    p.listens |= s.tokens_left > 1 && record.gate.listens();
    const auto count = static_cast<size_t>(most);
    if (willing && s.decodes) AddSurvivals(record, step, count, &p.could);
    if (record.has_block) AddSurvivals(record, step, count, &p.can);
  }
  return p;
}

// While drafting is off nothing is learned, so that steps of one load are all alike.
const Outlook& DraftPlanner::OutlookOf(const Prospect& prospect) {
  StepLoad load = prospect.load;
  load.drafting = prospect.decoding;
  if (load_gate_.Looks(static_cast<double>(load.sequences)) || !(load == looked_at_))
    outlook_ = LookAhead(prospect);
  looked_at_ = load_gate_.open() ? StepLoad{} : load;
  return outlook_;
}

// What decodes drafts and verifies: blocks of prompts that end here are worth nothing yet.
Outlook DraftPlanner::LookAhead(const Prospect& prospect) const {
  StepLoad load = prospect.load;
  load.drafting = prospect.decoding;
  Outlook outlook = {.budget = Choose(load, prospect.could)};
  if (prospect.decoding == 0) return outlook;
  std::vector<double> easy;
  for (int64_t s = 0; s < prospect.decoding; ++s) {
    double survival = 1;
    for (size_t k = 0; k < options_.slots; ++k) easy.push_back(survival *= kEasyAcceptance);
  }
  outlook.hope = Choose(load, easy).gain();
  if (load_gate_.open()) return outlook;
  ChooseTry(load, &outlook);
  return outlook;
}

// A try for so many sequences: as many blocks as lose no more than what it loses anyway.
DraftPlanner::Try DraftPlanner::TryOf(StepLoad load, int64_t count,
                                      std::span<const double> known) const {
  load.drafting = count;
  std::vector<double> tried;
  for (int64_t s = 0; s < count; ++s) tried.insert(tried.end(), known.begin(), known.end());
  const Budget all = BudgetOf(costs_, load, tried, static_cast<int64_t>(tried.size()));
  const double lost = std::max(0.0, all.seconds / all.plain_seconds * (1 - all.gain()));
  const auto steps = [&](int64_t blocks) { return (blocks + count - 1) / count; };
  const double most = LoadGate::kTryOverhead / (lost + LoadGate::kListenCost);
  const int64_t chosen =
      std::clamp(static_cast<int64_t>(most), steps(kLeastTried), steps(kMostTried));
  return {.sequences = count,
          .steps = chosen,
          .blocks = std::min(chosen * count, kMostTried),
          .lost = static_cast<double>(chosen) * lost};
}

// For few sequences in more steps or for many at once: a processor pays for rows, a device for
// steps that draft at all. What brings more blocks for no more than the rest of a try, and of what
// is dearer the cheapest.
void DraftPlanner::ChooseTry(const StepLoad& load, Outlook* outlook) const {
  std::vector<double> known;  // of a sequence as any other
  AddSurvivals({.survival = recent_}, 0, options_.slots, &known);
  const auto better = [](const Try& a, const Try& b) {
    const bool a_cheap = a.lost <= LoadGate::kTryOverhead,
               b_cheap = b.lost <= LoadGate::kTryOverhead;
    if (a_cheap != b_cheap) return a_cheap;
    if (a_cheap && a.blocks != b.blocks) return a.blocks > b.blocks;
    return a.lost < b.lost;
  };
  Try best = TryOf(load, 1, known);
  for (int64_t count = 2; count < 2 * load.drafting; count *= 2) {
    const Try other = TryOf(load, std::min(count, load.drafting), known);
    if (better(other, best)) best = other;
  }
  outlook->try_sequences = best.sequences;
  outlook->try_steps = best.steps;
  outlook->try_loss = best.lost;
}

// Whose a try's blocks are changes from one to the next, and follows from no draft.
void DraftPlanner::Apply(const LoadGate::Answer& answer, uint64_t step, StepDrafts* plan) {
  if (!answer.draft) std::fill(plan->draft.begin(), plan->draft.end(), uint8_t{0});
  if (answer.few && !tried_) recent_.Doubt();
  tried_text_ = answer.few || (tried_text_ && !load_gate_.settled());
  if (!answer.few) return;
  const auto count = plan->draft.size();
  const auto tried = static_cast<uint64_t>(outlook_.try_sequences);
  int64_t left = outlook_.try_sequences;
  for (size_t i = 0; i < count; ++i) {
    uint8_t& draft = plan->draft[(i + step * tried) % count];
    if (draft != 0 && --left < 0) draft = 0;
  }
}

StepDrafts DraftPlanner::Plan(uint64_t step, std::span<const PlannedSequence> sequences,
                              int64_t other_rows, int64_t max_drafts) {
  step_ = step;
  TakeUpTo(step);
  StepDrafts plan = {.context = load_gate_.context()};
  if (sequences.empty()) return plan;
  Prospect prospect = Look(step, sequences, &plan);
  StepLoad& load = prospect.load;
  load.other_rows = other_rows;
  load.max_drafts = max_drafts;
  const LoadGate::Answer answer = load_gate_.Step(OutlookOf(prospect));
  plan.context = answer.context && prospect.listens;
  Apply(answer, step, &plan);
  load.drafting = std::count(plan.draft.begin(), plan.draft.end(), uint8_t{1});
  plan.budget =
      tried_ ? BudgetOf(costs_, load, prospect.can, max_drafts) : Choose(load, prospect.can);
  tried_ = answer.few;
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
    if (o.verified_confidences.empty() && o.next_confidences.empty() && o.verified == 0) continue;
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
  size_t done = 0;
  while (done < pending_.size() && pending_[done].step + kLag <= step) {
    size_t end = done;
    while (end < pending_.size() && pending_[end].step == pending_[done].step) ++end;
    TakeStep(std::span(pending_).subspan(done, end - done));
    done = end;
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(done));
}

// Survivals of the drafts that were verified, as they are foretold now, added up.
double DraftPlanner::Foretold(const Pending& p, int64_t verified) const {
  double sum = 0, survival = 1;
  for (int64_t k = 0; k < verified; ++k) {
    const auto slot = static_cast<size_t>(k);
    sum += survival *= Sigmoid(Logit(p.verified_confidences[slot]) + shifts()[slot]);
  }
  return sum;
}

void DraftPlanner::TakeStep(std::span<const Pending> pending) {
  int64_t blocks = 0;
  double foretold = 0, accepted = 0;
  for (const Pending& p : pending) {
    const int64_t verified = Verified(p);
    foretold += Foretold(p, verified);
    accepted += static_cast<double>(std::min(p.accepted, verified));
    blocks += verified > 0 ? 1 : 0;
  }
  if (blocks > 0) trust_.Observe(blocks, foretold, accepted);
  for (const Pending& p : pending) Take(p);
}

int64_t DraftPlanner::Verified(const Pending& p) const {
  return std::min<int64_t>(
      p.verified, static_cast<int64_t>(std::min(p.verified_confidences.size(), options_.slots)));
}

void DraftPlanner::Take(const Pending& p) {
  const int64_t verified = Verified(p);
  const int64_t accepted = std::min(p.accepted, verified);
  shift_.Observe(p.verified_confidences, verified, accepted);
  typical_.Observe(verified, accepted);
  recent_.Observe(verified, accepted);
  const auto found = records_.find(p.sequence);
  if (found == records_.end() || found->second.life != p.life) return;
  Record& record = found->second;
  if (p.had_chance) record.gate.Observe(accepted);
  record.survival.Observe(verified, accepted);
  if (verified > 0) record.learned_step = p.step;
  if (!p.next_confidences.empty()) TakeNext(p, &record);
}

// What confidences say of the block that comes.
void DraftPlanner::TakeNext(const Pending& p, Record* record) const {
  record->stale.resize(options_.slots);
  const auto used = std::min(p.next_confidences.size(), options_.slots);
  spec::Survivals(std::span(p.next_confidences).first(used), options_.temperatures, shifts(),
                  record->stale);
  record->stale_step = record->learned_step = p.step;
  std::vector<double> trusted = record->stale;
  for (double& s : trusted) s = std::min(1.0, s * trust_.factor());
  record->survival.Predict(trusted);
}

}  // namespace thalweg::spec
