// From measured costs, links and routing to the time of a step of any number of ranks: attention
// by data (decode) or context (prefill), experts spread over all ranks, placed by load.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "sim/cluster.h"

namespace thalweg::sim {

struct Prediction {
  std::string phase = {};  // "decode", "prefill"
  int64_t ranks = 1;
  int64_t batch = 0;   // decode: sequences of a rank
  int64_t prompt = 0;  // prefill: tokens
  double step_us = 0;  // of a decode step; of a whole prompt
  // Its parts, which add up to it. Ranks wait for each other in every layer, so that each part is
  // that of the slowest rank.
  double dense_us = 0;
  double experts_us = 0;
  double skew_us = 0;   // decode: the slowest rank's dense ops over what one rank needs for them
  double link_us = 0;   // what overlap does not hide
  double other_us = 0;  // drafting; a prompt's tail
  std::vector<std::pair<std::string, double>> ops = {};  // decode: of dense_us
  double tokens_per_s = 0;                               // of all ranks together
  double tokens_per_s_per_rank = 0;
  double tokens_per_s_per_user = 0;  // decode
  double imbalance = 1;      // time of the slowest rank's experts over the mean, mean of layers
  double bytes_per_row = 0;  // that leave ranks in a layer for experts
};

// A figure for each batch, then for each prompt. Errors: sizes that a placement cannot have.
Result<std::vector<Prediction>> Predict(const Cluster& cluster);

}  // namespace thalweg::sim
