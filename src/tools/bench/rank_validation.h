// `thalweg bench ranks-decode --validate`: what `thalweg simulate` predicts for decode steps of one
// rank and of several, beside what they take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/options.h"
#include "base/status.h"
#include "engine/options.h"

namespace thalweg::tools::bench {

struct ValidationLoad {
  std::vector<int64_t> batches = {1, 2, 4, 8, 16, 32, 64};  // sequences of each rank, a figure each
  int64_t prompt = 64;                                      // tokens
  int64_t tokens = 48;                                      // decode steps
  int64_t ranks = 2;                                        // beside one
  int64_t repeats = 3;  // of every run; the least of each step counts
};

struct ValidationFigure {
  int64_t ranks = 1;
  int64_t batch = 1;
  double predicted_ms = 0;
  double measured_ms = 0;
  double busy_ms = 0;    // of it processor time; 0: several ranks, which also wait
  double link_ms = 0;    // of the prediction
  double imbalance = 1;  // predicted: experts of the slowest rank over the mean
  double Ratio() const { return predicted_ms / measured_ms; }
};

struct Validation {
  int64_t context = 0;                     // cached tokens in the middle of what is measured
  std::vector<int64_t> cost_batches = {};  // that costs were measured at
  std::vector<int64_t> cost_contexts = {};
  std::vector<ValidationFigure> figures = {};
};

inline constexpr double kPredictionBar = 0.1;  // of what is measured

// Ranks are threads of this process, one thread each. Costs are measured at other numbers of
// sequences and other lengths (CostsAround) than those that they are judged by.
Result<Validation> Validate(const engine::EngineOptions& options, const ValidationLoad& load);

std::string ToTable(const Validation& validation);
base::Json ToJson(const Validation& validation);

Status ValidateRanksCommand(const base::OptionValues& values);

}  // namespace thalweg::tools::bench
