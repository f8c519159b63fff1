#include "exec/forced_drafts.h"

#include <algorithm>

namespace thalweg::exec {
namespace {

constexpr double kKept = 63.0 / 64;  // weight of what is known, when a step is added
// Of a step's time, rows have this share at most: weights are read and a step is begun for any.
constexpr double kMostForRows = 0.95;
// Less spread of rows says nothing of what one costs.
constexpr double kLeastSpread = 0.05;
// A step that something else held up counts as one that took so many times the usual.
constexpr double kLongest = 3;

}  // namespace

void LearnedCosts::Ran(int64_t rows, double seconds) {
  const auto x = static_cast<double>(rows);
  if (steps_ > 8) {
    const double usual = seconds_ / steps_ + Slope() * std::max(0.0, x - rows_ / steps_);
    seconds = std::min(seconds, kLongest * usual);
  }
  for (double* sum : {&steps_, &rows_, &seconds_, &rows_rows_, &rows_seconds_}) *sum *= kKept;
  steps_ += 1;
  rows_ += x;
  seconds_ += seconds;
  rows_rows_ += x * x;
  rows_seconds_ += x * seconds;
}

// Least squares; between rows that are free and rows that are nearly all that there is to pay for.
double LearnedCosts::Slope() const {
  if (steps_ == 0) return 0;
  const double x = rows_ / steps_, y = seconds_ / steps_;
  const double spread = rows_rows_ / steps_ - x * x;
  if (spread < kLeastSpread) return 0;
  return std::clamp((rows_seconds_ / steps_ - x * y) / spread, 0.0, kMostForRows * y / x);
}

spec::CostTable LearnedCosts::TableFor(int64_t rows, int64_t more) const {
  constexpr double kLeast = 1e-9;  // a time that is none is refused
  const auto seconds = [&](int64_t at) {
    if (steps_ == 0) return kLeast;
    return std::max(kLeast,
                    seconds_ / steps_ + Slope() * (static_cast<double>(at) - rows_ / steps_));
  };
  const int64_t last = rows + std::max<int64_t>(more, 1);
  return spec::CostTable(
      {.steps = {{1, rows, seconds(rows)}, {1, last, seconds(last)}}, .drafts = {{1, kLeast}}});
}

ForcedDrafts::ForcedDrafts(Options options) : always_(options.always) {
  if (options.costs.has_value()) costs_.emplace(*options.costs);
}

// Whether anything is forced.
bool ForcedDrafts::Ask(const base::ThreadTeam& team, std::span<const Asked> sequences) {
  if (drafts_.size() < sequences.size()) drafts_.resize(sequences.size());
  bool any = false;
  for (size_t i = 0; i < sequences.size(); ++i) {
    drafts_[i].clear();
    any |= sequences[i].masks != nullptr && sequences[i].most > 0;
  }
  if (!any) return false;
  const auto ask = [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const Asked& s = sequences[i];
      if (s.masks != nullptr && s.most > 0) drafts_[i] = s.masks->Forced(s.most);
    }
  };
  team.ParallelFor(static_cast<int64_t>(sequences.size()), 1, ask);
  return std::any_of(drafts_.begin(), drafts_.begin() + static_cast<int64_t>(sequences.size()),
                     [](const auto& drafts) { return !drafts.empty(); });
}

void ForcedDrafts::Plan(const base::ThreadTeam& team, std::span<const Asked> sequences,
                        spec::StepLoad load) {
  begin_ = std::chrono::steady_clock::now();
  lengths_.assign(sequences.size(), 0);
  if (!Ask(team, sequences)) return;
  most_.clear();
  for (size_t i = 0; i < sequences.size(); ++i) {
    most_.push_back(static_cast<int32_t>(drafts_[i].size()));
    load.max_drafts += most_.back();
  }
  if (always_) {
    lengths_ = most_;
  } else {
    Choose(load);
  }
}

void ForcedDrafts::Choose(spec::StepLoad load) {
  const auto slots = static_cast<size_t>(*std::max_element(most_.begin(), most_.end()));
  survivals_.assign(most_.size() * slots, 0.0);
  std::vector<double> all;
  for (size_t i = 0; i < most_.size(); ++i) {
    for (size_t k = 0; k < drafts_[i].size(); ++k) {
      all.push_back(drafts_[i][k].survival);
      survivals_[i * slots + k] = all.back();
    }
  }
  const int64_t rows = load.sequences + load.other_rows;
  const spec::Budget budget =
      costs_.has_value() ? spec::ChooseBudget(*costs_, load, all)
                         : spec::ChooseBudget(learned_.TableFor(rows, load.max_drafts), load, all);
  spec::Allocate(survivals_, most_, budget.drafts, lengths_);
}

void ForcedDrafts::Ran(int64_t rows) {
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
  if (!costs_.has_value() && !always_) learned_.Ran(rows, seconds.count());
}

}  // namespace thalweg::exec
