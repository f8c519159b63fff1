// Rank 0's part of online rebalancing (spec/decoding.md 7.3): rows are counted by layer and expert
// in windows; behind each, one layer at a time is placed anew by load, where that pays
// (parallel/rebalance.h), and its weights are moved between steps, a little before each, so that no
// step is much longer than others. Bits do not depend on any of it.
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <mutex>

#include "engine/engine.h"
#include "engine/expert_places.h"
#include "exec/ranks.h"
#include "parallel/rebalance.h"

namespace thalweg::engine {

struct RebalanceOptions {
  int64_t window_rows = 0;            // 0: experts stay where they are
  std::filesystem::path counts = {};  // written at the end; empty: not
  double most_share = 0.1;            // of a step's time that moving takes
  int64_t step_bytes = 0;             // moved before a step at most; 0: most_share decides
  parallel::RebalanceRules rules = {};
};

class Rebalancer : public exec::BetweenSteps {
 public:
  Rebalancer(comm::Communicator* group, ExpertPlaces places, RebalanceOptions options);

  Status Before(const step::StepPlan& plan) override;
  void After() override;
  void End() override;

  // Thread-safe.
  ExpertMetrics metrics() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Step {
    int64_t rows = 0;
    double seconds = 0;
  };

  Status Work();
  Status Order(const exec::PlacementOrder& order);
  Status LookAtWindow();
  Status PlanLayer();
  Status Advance();
  int64_t NextBytes() const;
  double MedianSeconds(int64_t rows) const;
  void NoteStep(const Step& step);
  void NoteMove(int64_t bytes, double seconds);
  void SaveCounts();

  comm::Communicator* group_;
  ExpertPlaces places_;
  const RebalanceOptions options_;
  parallel::LoadWindow window_;
  parallel::ExpertCounts total_;     // since the start
  int64_t rows_ = 0;                 // planned since the last count
  int next_layer_ = 0;               // to be placed; behind the last: none
  double expected_gain_[2] = {};     // imbalance of the layer under way, before and after
  std::deque<double> byte_seconds_;  // of a byte, in the newest pieces that were large enough

  // Of the step under way.
  uint64_t number_ = 0;
  int64_t step_rows_ = 0;
  bool worked_ = false;  // something was done before it
  Clock::time_point began_ = {};
  std::deque<Step> steps_;    // the newest that nothing was done before
  double longest_other_ = 0;  // of them, over the median of those with as many rows

  mutable std::mutex mutex_;
  ExpertMetrics metrics_;
};

}  // namespace thalweg::engine
