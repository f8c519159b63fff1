// Figures of many scores, with how far they can be trusted.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "tools/eval/score.h"

namespace thalweg::tools::eval {

// The Wilson score interval of hits among n at 95 % (E. B. Wilson, 1927), [0, 1] when n is 0.
struct Interval {
  double low = 0, high = 1;
};
Interval WilsonInterval(int64_t hits, int64_t n);

// A figure of a group of items.
struct EvalFigure {
  Kind kind = Kind::kExact;
  std::string group = {};   // empty: all groups of the kind
  std::string metric = {};  // "perplexity", "bits_per_byte", "accuracy", "valid", ...
  int64_t items = 0;        // that were scored for it
  double value = 0;
  double standard_error = 0;
  Interval interval = {};  // 95 %
  int64_t tokens = 0;      // perplexity
};

struct EvalSummary {
  int64_t items = 0;
  int64_t errors = 0;
  std::vector<EvalFigure> figures = {};  // by kind, group (all of them first) and metric
};

// Shares have the standard error sqrt(p (1 - p) / n) and Wilson's interval. Perplexity is
// exp(sum of nll / sum of tokens); documents are what is drawn, so that the error of the mean is
// that of a ratio over documents, and the interval exp(mean -+ 1.96 errors).
EvalSummary Summarise(std::span<const Score> scores);

std::string ToTable(const EvalSummary& summary);
base::Json ToJson(const EvalSummary& summary);

}  // namespace thalweg::tools::eval
