// Forced text of constrained sequences as drafts of a step: how much of it is worth its rows
// (spec/decoding.md 5.5).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_team.h"
#include "exec/token_masks.h"
#include "spec/cost_table.h"
#include "spec/verification.h"

namespace thalweg::exec {

// What steps cost, learned from those that ran: seconds as a line over rows, recent steps count
// most. Rows that never varied cost nothing more, so that what is not known is tried.
class LearnedCosts {
 public:
  void Ran(int64_t rows, double seconds);
  // Seconds of one row more; 0 as long as nothing is known.
  double Slope() const;
  // Good for steps of `rows` rows and up to `more` more.
  spec::CostTable TableFor(int64_t rows, int64_t more) const;

 private:
  // Of past steps, with weights.
  double steps_ = 0, rows_ = 0, seconds_ = 0, rows_rows_ = 0, rows_seconds_ = 0;
};

class ForcedDrafts {
 public:
  struct Options {
    bool always = false;                          // whether it pays or not
    std::optional<spec::CostProfile> costs = {};  // none: learned
  };
  // Of a sequence in a step.
  struct Asked {
    TokenMasks* masks = nullptr;  // null: nothing is forced
    int64_t most = 0;
  };

  explicit ForcedDrafts(Options options);

  // Which text is forced, and how much of it is verified. load: the step without it, max_drafts
  // aside.
  void Plan(const base::ThreadTeam& team, std::span<const Asked> sequences, spec::StepLoad load);
  std::span<const ForcedDraft> drafts(size_t sequence) const { return drafts_[sequence]; }
  int64_t length(size_t sequence) const { return lengths_[sequence]; }
  // The step that was planned last ran so many rows, none of a prompt.
  void Ran(int64_t rows);

 private:
  bool Ask(const base::ThreadTeam& team, std::span<const Asked> sequences);
  void Choose(spec::StepLoad load);

  const bool always_;
  std::optional<spec::CostTable> costs_;
  LearnedCosts learned_;
  std::chrono::steady_clock::time_point begin_ = {};
  // By sequence of the step; their memory serves again.
  std::vector<std::vector<ForcedDraft>> drafts_;
  std::vector<int32_t> lengths_, most_;
  std::vector<double> survivals_;
};

}  // namespace thalweg::exec
