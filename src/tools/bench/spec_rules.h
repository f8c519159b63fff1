// thalweg bench spec --rules: engines that draft by different rules against one that does not, on
// the same requests in turns. Each answer is held to the one without drafts, token for token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"

namespace thalweg::tools::bench {

// One rule, or none ("off"), at one load.
struct RuleFigures {
  std::string prompts = {};  // "random" or "given"
  double temperature = 0;
  int64_t batch = 0;
  std::string rule = {};            // off, whole, paying, varlen
  double tok_s = 0;                 // the median
  double gain = 1;                  // geometric mean of the ratios to off in the same round
  double low = 0, high = 0;         // its 95 % interval
  double steps = 0;                 // of a round
  double drafts_a_step = 0;         // verified, of each sequence
  double accepted_a_step = 0;       // likewise
  int64_t answers = 0, differ = 0;  // of all rounds; those that have other tokens than off's
};

std::string ToTable(const std::vector<RuleFigures>& figures);

// The whole command. Errors: kInternal when an answer differs, after the table is printed.
Status BenchSpecRulesCommand(const base::OptionValues& values);

}  // namespace thalweg::tools::bench
