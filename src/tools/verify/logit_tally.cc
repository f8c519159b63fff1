#include "tools/verify/logit_tally.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "tools/verify/figures.h"

namespace thalweg::tools {

void LogitTally::AddLogits(std::span<const float> got, std::span<const float> want) {
  const LogitErrors errors = CompareLogits(got, want);
  ++positions;
  kl_sum += errors.kl;
  kl_worst = Worse(kl_worst, errors.kl);
  max_abs.push_back(errors.max_abs);
}

void LogitTally::AddChoice(std::span<const float> got, int64_t want, double margin) {
  ++choices;
  if (ArgMax(got) == want) {
    ++choices_equal;
  } else {
    flip_margin = Worse(flip_margin, margin);
  }
  for (const float value : got) {
    if (std::isnan(value)) flip_margin = std::numeric_limits<double>::infinity();
  }
}

void LogitTally::Add(const LogitTally& other) {
  positions += other.positions;
  kl_sum += other.kl_sum;
  kl_worst = Worse(kl_worst, other.kl_worst);
  max_abs.insert(max_abs.end(), other.max_abs.begin(), other.max_abs.end());
  choices += other.choices;
  choices_equal += other.choices_equal;
  flip_margin = Worse(flip_margin, other.flip_margin);
}

double LogitTally::mean_kl() const {
  return positions == 0 ? 0 : kl_sum / static_cast<double>(positions);
}

void ReportPositions(const LogitTally& tally, Stage stage, const std::string& name,
                     const Limits& limits, double margin, VerifyReport* report) {
  if (tally.positions > 0) {
    report->AtMost({.stage = stage, .part = "kl_max", .name = name + "/kl_max"}, tally.kl_worst,
                   limits.kl_max, fmt::format("{} positions", tally.positions));
  }
  if (tally.choices > 0) {
    report->AtMost({.stage = stage, .part = "argmax", .name = name + "/argmax"}, tally.flip_margin,
                   margin,
                   fmt::format("largest margin where it differs; {} of {} equal",
                               tally.choices_equal, tally.choices));
  }
}

void ReportTogether(const LogitTally& tally, Stage stage, const std::string& name,
                    const Limits& limits, VerifyReport* report) {
  if (tally.positions > 0) {
    report->AtMost({.stage = stage, .part = "mean_kl", .name = name + "/mean_kl"}, tally.mean_kl(),
                   limits.mean_kl, fmt::format("{} positions", tally.positions));
  }
  if (tally.choices > 0) {
    report->AtLeast(
        {.stage = stage, .part = "argmax_agreement", .name = name + "/argmax_agreement"},
        static_cast<double>(tally.choices_equal) / static_cast<double>(tally.choices),
        limits.argmax_agreement, fmt::format("{} positions", tally.choices));
  }
}

}  // namespace thalweg::tools
