// Judging logits of many positions: single positions by their worst, all together by their mean.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/verify/limits.h"
#include "tools/verify/report.h"

namespace thalweg::tools {

struct LogitTally {
  int64_t positions = 0;  // with stored logits
  double kl_sum = 0;
  double kl_worst = 0;
  std::vector<double> max_abs;  // [positions]
  int64_t choices = 0;          // with a stored arg max
  int64_t choices_equal = 0;
  double flip_margin = 0;  // the largest stored margin of a choice that differs

  // got and want: [vocab].
  void AddLogits(std::span<const float> got, std::span<const float> want);
  // `want` is the stored arg max and `margin` its lead over the second.
  void AddChoice(std::span<const float> got, int64_t want, double margin);
  void Add(const LogitTally& other);

  double mean_kl() const;
};

// "<name>/kl_max" and "<name>/argmax": what has to hold at every single position.
void ReportPositions(const LogitTally& tally, Stage stage, const std::string& name,
                     const Limits& limits, double margin, VerifyReport* report);
// "<name>/mean_kl" and "<name>/argmax_agreement": what has to hold for all positions together.
void ReportTogether(const LogitTally& tally, Stage stage, const std::string& name,
                    const Limits& limits, VerifyReport* report);

}  // namespace thalweg::tools
