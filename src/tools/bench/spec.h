// thalweg bench spec: what speculation brings. How long accepted prefixes are and how well
// confidences foretell them, what steps and drafts cost, and the speed with and without by load.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/options.h"
#include "base/status.h"
#include "spec/calibration.h"
#include "spec/cost_table.h"

namespace thalweg::tools::bench {

// Drafts of one slot that were verified, over all answers.
struct SlotFigures {
  int64_t blocks = 0;
  double survival = 0;  // share of blocks in which it and all before it were accepted
  double error = 0;     // calibration error of that, by raw confidences
  double area = 0;      // under the curve
};

// Answers of all prompts, greedy, whole blocks.
struct AcceptanceFigures {
  int64_t answers = 0, tokens = 0, steps = 0;
  std::vector<SlotFigures> slots = {};

  double TokensPerStep() const {
    return static_cast<double>(tokens) / static_cast<double>(steps > 0 ? steps : 1);
  }
};

// What a step was like, on average.
struct StepFigures {
  double ms = 0, tokens = 0, rows = 0, schedule_us = 0;
};

// An engine with drafts against one without: the same requests in turns (spec_pairs.h).
struct SpeedFigures {
  int64_t batch = 0;
  double off_tok_s = 0, on_tok_s = 0;              // of all halves
  double gain = 0;                                 // geometric mean of the quads' ratios
  double low = 0, high = 0;                        // its 95 % interval
  double cpu_gain = 0, cpu_low = 0, cpu_high = 0;  // tokens a second of processor time, likewise
  double drafts_a_step = 0;  // verified: the budget that was chosen, on average
  double accepted_a_step = 0;
  StepFigures off_step = {}, on_step = {};
};

// No load may be slower with drafts than this.
inline constexpr double kLeastGain = 0.98;

struct SpecFigures {
  AcceptanceFigures acceptance = {};
  spec::CostProfile costs = {};
  std::vector<SpeedFigures> speeds = {};
};

AcceptanceFigures AcceptanceOf(const std::vector<spec::VerifiedBlock>& blocks, size_t slots);

// The mean of ratios on a logarithmic scale, with its 95 % interval by Student's law; one ratio has
// none, which stays as wide as can be.
struct Interval {
  double mean = 1, low = 0, high = 0;
};
Interval IntervalOf(const std::vector<double>& ratios);

base::Json ToJson(const SpecFigures& figures);
std::string ToTable(const SpecFigures& figures);
// survival.csv, costs.csv, drafting.csv and speed.csv, and spec.gp, which gnuplot makes curves of.
Status WriteCurves(const std::filesystem::path& folder, const SpecFigures& figures);

// The whole command: --prompts or random ones answered greedily, costs measured, then pairs of runs
// for every --batch.
Status BenchSpecCommand(const base::OptionValues& values);
std::vector<base::OptionRow> BenchSpecRows();

}  // namespace thalweg::tools::bench
