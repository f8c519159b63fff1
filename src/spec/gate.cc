#include "spec/gate.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace thalweg::spec {

SurvivalRecord::SurvivalRecord(size_t slots, double least_share)
    : least_share_(least_share), survival_(slots) {
  double survival = 1;
  for (double& s : survival_) s = survival *= kUsualAcceptance;
}

SurvivalRecord SurvivalRecord::ForSequence() const {
  SurvivalRecord record = *this;
  record.least_share_ = kSequenceShare;
  return record;
}

// The mean of all at first, with what is usual as one of them.
double SurvivalRecord::NextShare() {
  return std::max(least_share_, 1 / static_cast<double>(++observations_ + 1));
}

void SurvivalRecord::Observe(int64_t verified, int64_t accepted) {
  TW_CHECK_LE(accepted, verified);
  if (verified == 0) return;
  // Whatever comes behind a rejected draft would not have survived, verified or not.
  const bool rejected = accepted < verified;
  const double share = NextShare();
  double before = 1;
  for (size_t k = 0; k < survival_.size(); ++k) {
    const auto slot = static_cast<int64_t>(k);
    double& s = survival_[k];
    if (slot < verified || rejected) s += ((slot < accepted ? 1 : 0) - s) * share;
    s = before = std::min(s, before);
  }
}

void SurvivalRecord::Predict(std::span<const double> survival) {
  TW_CHECK_EQ(survival.size(), survival_.size());
  const double share = NextShare();
  for (size_t k = 0; k < survival_.size(); ++k)
    survival_[k] += (survival[k] - survival_[k]) * share;
}

void Trust::Observe(int64_t blocks, double foretold, double accepted) {
  const double kept = std::pow(1 - 1 / kMemory, static_cast<double>(blocks));
  foretold_ = foretold_ * kept + foretold;
  accepted_ = accepted_ * kept + accepted;
}

double Trust::factor() const {
  return std::min((accepted_ + kPrior) / (foretold_ + kPrior), kMost);
}

void LoadGate::Turn() {
  open_ = !open_;
  const bool mistake = !open_ && steps_ < kSettledSteps && lost_ > 0;
  if (!open_) needed_ = mistake ? std::min(2 * needed_, kMostLoss) : kLoss;
  if (!open_ && opened_by_try_) LearnOfTry(mistake ? lost_ : 0);
  if (!open_) account_ -= std::max(0.0, lost_);
  opened_by_try_ = open_ && HasTried();
  counts_.openings += open_ ? 1 : 0;
  if (!open_) closed_load_ = load_;
  loss_ = open_ ? -kNewCredit : 0;
  lost_ = 0;
  trying_ = ready_ = tried_ = false;
  steps_ = since_try_ = 0;
}

// One block says less than sixty.
double LoadGate::Noise(const Budget& budget) {
  const double sequences = std::max(1.0, budget.plain_rate * budget.plain_seconds);
  return 1 + kLossOfOne / sequences;
}

// Gains at one load say little of another.
void LoadGate::Account(const Outlook& outlook) {
  const Budget& budget = outlook.budget;
  if (budget.plain_rate <= 0) return;  // nothing decodes
  const double load = budget.plain_rate * budget.plain_seconds;
  const bool other = load > 1.5 * load_ || load < load_ / 1.5;
  if (other && load_ > 0) loss_ = open_ ? std::max(0.0, loss_) : 0;
  if (other) load_ = load;
  if (open_) return CountOpen(budget);
  if (HasNews(load)) loss_ = std::max(0.0, loss_ + budget.gain() - kLeastGain);
  needed_ = std::max(kLoss, needed_ * kForgetting);
}

void LoadGate::CountOpen(const Budget& budget) {
  const double slower = budget.seconds / budget.plain_seconds;
  const double loss = (kLeastKept - budget.gain()) * slower;
  lost_ += ready_ ? (1 - budget.gain()) * slower : kListenCost;
  const double credit =
      steps_ >= kListenSteps ? kMostCredit * Noise(budget) : std::max(0.0, -loss_);
  loss_ = std::max(-credit, loss_ + (loss_ > 0 || loss > 0 ? loss : loss / 2));
  if (loss < 0) Save(-loss * kSavedOfGains, kMostAccount);
}

// Of what easy text would show in one try, half is enough.
double LoadGate::Needed(const Outlook& outlook) const {
  if (!HasTried()) return account_ > 0 ? std::max(needed_, kOpeningPrice) : HUGE_VAL;
  const double shown = static_cast<double>(kNewsSteps) * (outlook.hope - kLeastGain);
  return std::clamp(shown / 2, kLoss, needed_);
}

// What closed it says the same in each step: only another load, and what a try has found for a
// while, say more.
bool LoadGate::HasNews(double load) const {
  if (load > 1.5 * closed_load_ || load < closed_load_ / 1.5) return true;
  return HasTried();
}

bool LoadGate::HasTried() const {
  return trying_ ? try_step_ > kShortListenSteps : tried_ && since_try_ < kNewsSteps;
}

// Where easy text would not pay either there is nothing to wait for.
bool LoadGate::Loses(const Outlook& outlook) const {
  const bool hopeless = outlook.hope < 1 && outlook.budget.gain() < 1;
  return hopeless || loss_ >= MostLoss(outlook.budget);
}

double LoadGate::PriceOfTry(const Outlook& outlook) {
  const auto listened = static_cast<double>(kShortListenSteps + outlook.try_steps + kResultSteps);
  return kListenCost * listened + kTryOverhead + outlook.try_loss;
}

bool LoadGate::TryIsDue(const Outlook& outlook) const {
  const double price = PriceOfTry(outlook);
  if (outlook.hope < kLeastHope || account_ < price) return false;
  const double change = kFirstChange + static_cast<double>(steps_);
  const double wait = std::sqrt(2 * (price + mistakes_) * change / (outlook.hope - 1));
  return static_cast<double>(since_try_) >= std::max(wait, price / kTryShare);
}

// A try writes context, drafts, and waits for what comes of it, so that the context goes on if that
// is good.
LoadGate::Answer LoadGate::Closed(const Outlook& outlook) {
  if (!trying_) {
    ++since_try_;
    if (!TryIsDue(outlook)) return {};
    trying_ = true;
    if (tried_) LearnOfTry(0);  // the one before has opened nothing
    tried_ = true;
    since_try_ = try_step_ = 0;
    account_ -= PriceOfTry(outlook);
    ++counts_.tries;
  }
  const int64_t drafted = kShortListenSteps + outlook.try_steps;
  const bool draft = try_step_ >= kShortListenSteps && try_step_ < drafted;
  trying_ = ++try_step_ < drafted + kResultSteps;
  return {.draft = draft, .few = draft, .context = true};
}

// What begins again has a context before it has drafts.
LoadGate::Answer LoadGate::Open(const Outlook& outlook) {
  const bool clear = outlook.budget.gain() >= kClearGain;
  ready_ = ready_ || context_steps_ >= (clear ? kShortListenSteps : kListenSteps);
  return {.draft = ready_, .context = true};
}

LoadGate::Answer LoadGate::Step(const Outlook& outlook) {
  Save(kTryShare, open_ ? kMostAccount : std::max(kMostAccount, PriceOfTry(outlook)));
  Account(outlook);
  if (open_ ? Loses(outlook) : loss_ >= Needed(outlook)) Turn();
  ++steps_;
  const Answer answer = open_ ? Open(outlook) : Closed(outlook);
  context_steps_ = answer.context ? context_steps_ + 1 : 0;
  ++counts_.steps;
  counts_.open += open_ ? 1 : 0;
  counts_.context += answer.context ? 1 : 0;
  return answer;
}

bool SequenceGate::Step() {
  if (pause_left_ == 0) return true;
  --pause_left_;
  return false;
}

void SequenceGate::Observe(int64_t accepted) {
  if (accepted > 0) {
    idle_blocks_ = 0;
    pause_ = 0;
    return;
  }
  ++idle_blocks_;
  // Behind a pause one attempt decides.
  if (pause_ == 0 && idle_blocks_ < kIdleBlocks) return;
  pause_ = pause_ == 0 ? kFirstPause : std::min(2 * pause_, kLongestPause);
  pause_left_ = pause_;
}

}  // namespace thalweg::spec
