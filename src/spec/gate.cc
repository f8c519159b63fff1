#include "spec/gate.h"

#include <algorithm>

#include "base/check.h"

namespace thalweg::spec {
namespace {

constexpr double kNewShare = 1.0 / 16;  // of a new block in the record

}  // namespace

void SurvivalRecord::Observe(int64_t verified, int64_t accepted) {
  TW_CHECK_LE(accepted, verified);
  // Whatever comes behind a rejected draft would not have survived, verified or not.
  const bool rejected = accepted < verified;
  double before = 1;
  for (size_t k = 0; k < survival_.size(); ++k) {
    const auto slot = static_cast<int64_t>(k);
    double& s = survival_[k];
    if (slot < verified || rejected) s += ((slot < accepted ? 1 : 0) - s) * kNewShare;
    s = before = std::min(s, before);
  }
}

bool LoadGate::Step(const Budget& budget) {
  const bool pays = budget.drafts > 0 && budget.gain() >= (open_ ? 1 : kLeastGain);
  against_ = pays == open_ ? 0 : against_ + 1;
  if (against_ >= kPatience) {
    open_ = !open_;
    against_ = 0;
    closed_steps_ = 0;
  }
  if (open_) return true;
  return ++closed_steps_ % kLoadProbe == 0;
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
