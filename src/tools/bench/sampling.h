// thalweg bench sampling: the time from a row of logits to its token, on one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace thalweg::tools::bench {

inline constexpr int64_t kMostSampledVocab = int64_t{1} << 20;

struct SamplingFigure {
  std::string params;  // "top_p 0.95"
  int64_t vocab = 0;
  double us_per_row = 0;
};

// Rows of roughly normal logits of deviation 3, for the usual kinds of parameters.
std::vector<SamplingFigure> BenchSampling(int64_t vocab, double seconds_each);

base::Json ToJson(const std::vector<SamplingFigure>& figures);
std::string ToTable(const std::vector<SamplingFigure>& figures);

}  // namespace thalweg::tools::bench
