#include "spec/cost_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "spec/monotone_grid.h"

namespace thalweg::spec {
namespace {

void SortUnique(std::vector<int64_t>* values) {
  std::sort(values->begin(), values->end());
  values->erase(std::unique(values->begin(), values->end()), values->end());
}

size_t PlaceOf(const std::vector<int64_t>& axis, int64_t value) {
  return static_cast<size_t>(std::lower_bound(axis.begin(), axis.end(), value) - axis.begin());
}

// A value between two places of an axis, or at its ends.
struct Between {
  size_t low = 0;
  size_t high = 0;
  double share = 0;  // of high
};

Between Find(const std::vector<int64_t>& axis, double value) {
  if (value <= static_cast<double>(axis.front())) return {};
  if (value >= static_cast<double>(axis.back())) return {axis.size() - 1, axis.size() - 1, 0};
  const auto behind = std::upper_bound(axis.begin(), axis.end(), value, [](double v, int64_t a) {
    return v < static_cast<double>(a);
  });
  const auto high = static_cast<size_t>(behind - axis.begin());
  const auto from = static_cast<double>(axis[high - 1]);
  return {high - 1, high, (value - from) / (static_cast<double>(axis[high]) - from)};
}

double Mix(double low, double high, double share) { return low + (high - low) * share; }

}  // namespace

CostTable::CostTable(const CostProfile& profile) : graph_rows_(profile.graph_rows) {
  TW_CHECK(CheckProfile(profile).ok());
  for (const CostPoint& p : profile.steps) {
    sequences_.push_back(p.sequences);
    rows_.push_back(p.rows);
  }
  SortUnique(&sequences_);
  SortUnique(&rows_);
  FillCells(profile.steps);
  FitDrafts(profile.drafts);
}

void CostTable::FillCells(std::span<const CostPoint> steps) {
  cells_.assign(sequences_.size() * rows_.size(), std::numeric_limits<double>::quiet_NaN());
  for (const CostPoint& p : steps)
    cells_[PlaceOf(sequences_, p.sequences) * rows_.size() + PlaceOf(rows_, p.rows)] = p.seconds;
  const std::vector<double> guesses = LinearGuesses(cells_);
  MakeMonotone(sequences_.size(), rows_.size(), &cells_, guesses);
  const size_t last = rows_.size() - 1;
  if (last == 0) return;
  const auto gap = static_cast<double>(rows_[last] - rows_[last - 1]);
  for (size_t s = 0; s < sequences_.size(); ++s)
    slope_ = std::max(slope_, (Cell(s, last) - Cell(s, last - 1)) / gap);
}

// Between two measurements with the same number of sequences: linear in rows. NaN elsewhere.
std::vector<double> CostTable::LinearGuesses(std::span<const double> measured) const {
  const size_t width = rows_.size();
  std::vector<double> guesses(measured.size(), std::numeric_limits<double>::quiet_NaN());
  for (size_t line = 0; line < measured.size(); line += width) {
    size_t before = width;  // none yet
    for (size_t x = 0; x < width; ++x) {
      if (std::isnan(measured[line + x])) continue;
      for (size_t hole = before + 1; before < width && hole < x; ++hole) {
        const auto gap = static_cast<double>(rows_[x] - rows_[before]);
        const double share = static_cast<double>(rows_[hole] - rows_[before]) / gap;
        guesses[line + hole] = Mix(measured[line + before], measured[line + x], share);
      }
      before = x;
    }
  }
  return guesses;
}

void CostTable::FitDrafts(std::span<const DraftPoint> drafts) {
  for (const DraftPoint& p : drafts) draft_sequences_.push_back(p.sequences);
  SortUnique(&draft_sequences_);
  draft_seconds_.resize(draft_sequences_.size());
  for (const DraftPoint& p : drafts)
    draft_seconds_[PlaceOf(draft_sequences_, p.sequences)] = p.seconds;
  MakeMonotone(1, draft_seconds_.size(), &draft_seconds_);
}

double CostTable::StepSecondsAt(size_t sequences, double rows) const {
  const Between r = Find(rows_, rows);
  return Mix(Cell(sequences, r.low), Cell(sequences, r.high), r.share);
}

double CostTable::StepSeconds(int64_t sequences, int64_t rows) const {
  TW_DCHECK(rows >= 1 && sequences >= 0);
  if (!graph_rows_.empty() && rows <= graph_rows_.back())
    rows = *std::lower_bound(graph_rows_.begin(), graph_rows_.end(), rows);
  const Between s = Find(sequences_, static_cast<double>(sequences));
  const auto wanted = static_cast<double>(rows);
  const double seconds = Mix(StepSecondsAt(s.low, wanted), StepSecondsAt(s.high, wanted), s.share);
  return seconds + slope_ * std::max(0.0, wanted - static_cast<double>(rows_.back()));
}

double CostTable::DraftSeconds(int64_t sequences) const {
  if (sequences <= 0) return 0;
  const auto wanted = static_cast<double>(sequences);
  const Between s = Find(draft_sequences_, wanted);
  const double seconds = Mix(draft_seconds_[s.low], draft_seconds_[s.high], s.share);
  const auto last = static_cast<double>(draft_sequences_.back());
  return wanted > last ? seconds * wanted / last : seconds;
}

}  // namespace thalweg::spec
