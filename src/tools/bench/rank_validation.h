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
#include "sim/predict.h"

namespace thalweg::tools::bench {

// Ranks of one thread each.
struct RankCase {
  int64_t ranks = 1;
  int64_t batch = 1;  // sequences of each rank
};

struct ValidationLoad {
  std::vector<RankCase> cases = {};  // a figure each
  int64_t prompt = 64;               // tokens
  int64_t tokens = 48;               // decode steps
  int64_t repeats = 3;  // rounds: costs, links and steps are measured in turns, medians count
};

struct ValidationFigure {
  RankCase of = {};
  sim::Prediction predicted = {};
  sim::Link link = {};
  double measured_ms = 0;             // of a step, the median of all rounds
  double busy_ms = 0;                 // of it processor time; 0: several ranks, which also wait
  std::vector<double> turns_ms = {};  // the medians of each
  double PredictedMs() const { return predicted.step_us / 1e3; }
  double Ratio() const { return PredictedMs() / measured_ms; }
};

struct Validation {
  int64_t context = 0;  // cached tokens in the middle of what is measured
  std::vector<ValidationFigure> figures = {};
};

inline constexpr double kPredictionBar = 0.1;  // of what is measured

// Ranks are threads of this process. Costs are measured at other numbers of sequences and other
// lengths (CostsAround) than those that they are judged by, and in turns with the steps, so that a
// machine that is slower for a while is so for both.
Result<Validation> Validate(const engine::EngineOptions& options, const ValidationLoad& load);

std::string ToTable(const Validation& validation);
base::Json ToJson(const Validation& validation);

Status ValidateRanksCommand(const base::OptionValues& values);

}  // namespace thalweg::tools::bench
