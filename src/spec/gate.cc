#include "spec/gate.h"

#include <algorithm>

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

void LoadGate::Turn() {
  open_ = !open_;
  loss_ = 0;
  if (open_) {
    open_steps_ = 0;
    listening_ = kListenSteps;
    return;
  }
  needed_ = open_steps_ >= kSettledSteps ? kLoss : std::min(2 * needed_, kMostLoss);
  listening_ = wait_ = least_wait_ = 0;
}

// A wait that makes the try behind it cheap, and is twice as long as the one before.
LoadGate::Answer LoadGate::Closed(const Budget& budget) {
  if (listening_ > 0) return {.draft = --listening_ == 0, .context = true};
  if (wait_ == 0) {
    const double lost = kListenLoss + std::max(0.0, budget.seconds / budget.plain_seconds - 1);
    const double steps = std::min(lost / kTryShare, static_cast<double>(kLongestWait));
    least_wait_ = std::max(2 * least_wait_, static_cast<int64_t>(steps));
    wait_ = std::min(least_wait_, kLongestWait);
  }
  if (--wait_ == 0) listening_ = kListenSteps;
  return {};
}

// Gains at one load say little of another.
void LoadGate::Account(const Budget& budget) {
  if (budget.plain_rate <= 0) return;  // nothing decodes
  const double load = budget.plain_rate * budget.plain_seconds;
  const bool other = load > 1.5 * load_ || load < load_ / 1.5;
  if (other) load_ = load;
  if (other) loss_ = std::max(0.0, loss_);
  if (!open_) {
    loss_ = std::max(0.0, loss_ + budget.gain() - kLeastGain);
    return;
  }
  const double loss = 1 - budget.gain();
  loss_ = std::max(-kMostCredit, loss_ + (loss_ > 0 || loss > 0 ? loss : loss / 2));
}

LoadGate::Answer LoadGate::Step(const Budget& budget) {
  Account(budget);
  if (loss_ >= (open_ ? kLoss : needed_)) Turn();
  if (!open_) return Closed(budget);
  ++open_steps_;
  if (listening_ == 0) return {.draft = true, .context = true};
  --listening_;
  return {.draft = false, .context = true};
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
