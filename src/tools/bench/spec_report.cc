// Figures of bench spec for people, for programs and for gnuplot.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>

#include "base/mapped_file.h"
#include "spec/quality.h"
#include "tools/bench/spec.h"

namespace thalweg::tools::bench {
namespace {

// Student's t at 97.5 % by degrees of freedom.
double StudentAt(size_t freedom) {
  static constexpr std::array<double, 31> kTable = {
      0,     12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
      2.201, 2.179,  2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080,
      2.074, 2.069,  2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  return freedom < kTable.size() ? kTable[freedom] : 1.96;
}

base::Json ToJson(const AcceptanceFigures& a) {
  base::Json slots = base::Json::array();
  for (const SlotFigures& s : a.slots)
    slots.push_back(
        {{"blocks", s.blocks}, {"survival", s.survival}, {"ece", s.error}, {"auc", s.area}});
  return {{"answers", a.answers},
          {"tokens", a.tokens},
          {"steps", a.steps},
          {"tokens_per_step", a.TokensPerStep()},
          {"slots", slots}};
}

base::Json ToJson(const StepFigures& s) {
  return {{"ms", s.ms}, {"tokens", s.tokens}, {"rows", s.rows}, {"schedule_us", s.schedule_us}};
}

base::Json ToJson(const SpeedFigures& s) {
  return {{"batch", s.batch},
          {"off_tok_per_s", s.off_tok_s},
          {"on_tok_per_s", s.on_tok_s},
          {"gain", s.gain},
          {"gain_low", s.low},
          {"gain_high", s.high},
          {"cpu_gain", s.cpu_gain},
          {"cpu_gain_low", s.cpu_low},
          {"cpu_gain_high", s.cpu_high},
          {"off_step", ToJson(s.off_step)},
          {"on_step", ToJson(s.on_step)},
          {"drafts_per_step", s.drafts_a_step},
          {"accepted_per_step", s.accepted_a_step}};
}

std::string SlotTable(const AcceptanceFigures& a) {
  std::string out = fmt::format(
      "{} answers, {} tokens in {} steps: {:.3f} a step\n{:>4} {:>8} {:>9} {:>7} {:>6}\n",
      a.answers, a.tokens, a.steps, a.TokensPerStep(), "slot", "blocks", "survival", "ECE", "AUC");
  for (size_t k = 0; k < a.slots.size(); ++k) {
    const SlotFigures& s = a.slots[k];
    out += fmt::format("{:>4} {:>8} {:>9.3f} {:>7.4f} {:>6.3f}\n", k + 1, s.blocks, s.survival,
                       s.error, s.area);
  }
  return out;
}

double DraftingOf(const spec::CostProfile& costs, int64_t sequences) {
  for (const spec::DraftPoint& p : costs.drafts) {
    if (p.sequences == sequences) return p.seconds;
  }
  return 0;
}

std::string CostTableText(const spec::CostProfile& costs) {
  std::string out =
      fmt::format("{:>9} {:>6} {:>10} {:>12}\n", "sequences", "rows", "step us", "drafting us");
  for (const spec::CostPoint& p : costs.steps)
    out += fmt::format("{:>9} {:>6} {:>10.0f} {:>12.0f}\n", p.sequences, p.rows, p.seconds * 1e6,
                       DraftingOf(costs, p.sequences) * 1e6);
  return out;
}

// Speed is tokens of a step over its time: which of the two it is, and what the step is like.
std::string WhereTimeGoes(const SpeedFigures& s) {
  return fmt::format(
      "{} sequences: below {}: a step takes {:.4f} ms instead of {:.4f} ({:.3f} times) and brings "
      "{:.3f} tokens instead of {:.3f} ({:.3f} times); rows {:.2f} and {:.2f}, planned in {:.1f} "
      "and {:.1f} us\n",
      s.batch, kLeastGain, s.on_step.ms, s.off_step.ms, s.on_step.ms / s.off_step.ms,
      s.on_step.tokens, s.off_step.tokens, s.on_step.tokens / s.off_step.tokens, s.on_step.rows,
      s.off_step.rows, s.on_step.schedule_us, s.off_step.schedule_us);
}

std::string SpeedTable(const std::vector<SpeedFigures>& speeds) {
  std::string out = fmt::format("{:>9} {:>10} {:>10} {:>6} {:>15} {:>6} {:>15} {:>13} {:>9}\n",
                                "sequences", "off tok/s", "on tok/s", "gain", "95 %", "of CPU",
                                "95 %", "drafts a step", "accepted");
  for (const SpeedFigures& s : speeds)
    out += fmt::format(
        "{:>9} {:>10.0f} {:>10.0f} {:>6.3f} {:>7.3f}-{:<7.3f} {:>6.3f} {:>7.3f}-{:<7.3f} "
        "{:>13.2f} {:>9.2f}\n",
        s.batch, s.off_tok_s, s.on_tok_s, s.gain, s.low, s.high, s.cpu_gain, s.cpu_low, s.cpu_high,
        s.drafts_a_step, s.accepted_a_step);
  for (const SpeedFigures& s : speeds)
    if (s.low < kLeastGain) out += WhereTimeGoes(s);
  return out;
}

constexpr std::string_view kScript = R"(# gnuplot spec.gp: curves of the CSV files beside it
set datafile separator ','
set terminal svg size 640,400 background 'white'
set grid
set output 'speed.svg'
set title 'Speculation on against off'
set xlabel 'sequences'
set ylabel 'tokens a second, on / off'
set logscale x 2
plot 'speed.csv' skip 1 using 1:4:5:6 with yerrorlines title 'gain, 95 %', 1 notitle lc 'gray'
set output 'budget.svg'
set title 'Drafts verified a step and sequence'
set ylabel 'drafts'
plot 'speed.csv' skip 1 using 1:($7/$1) with linespoints title 'chosen', \
     'speed.csv' skip 1 using 1:($8/$1) with linespoints title 'accepted'
set output 'costs.svg'
set title 'Cost of a step'
set xlabel 'rows'
set ylabel 'microseconds'
set logscale y
plot 'costs.csv' skip 1 using 2:($3*1e6) with points title 'steps', \
     'drafting.csv' skip 1 using 1:($2*1e6) with linespoints title 'drafting, by sequences'
unset logscale
set output 'survival.svg'
set title 'Acceptance and confidence by slot'
set xlabel 'slot'
set yrange [0:1]
set ylabel 'share'
plot 'survival.csv' skip 1 using 1:3 with linespoints title 'survival', \
     'survival.csv' skip 1 using 1:4 with linespoints title 'calibration error', \
     'survival.csv' skip 1 using 1:5 with linespoints title 'area under the curve'
)";

}  // namespace

AcceptanceFigures AcceptanceOf(const std::vector<spec::VerifiedBlock>& blocks, size_t slots) {
  AcceptanceFigures figures;
  for (size_t k = 0; k < slots; ++k) {
    const auto predictions = spec::SurvivalPredictions(blocks, k, {});
    const auto survived = std::count_if(predictions.begin(), predictions.end(),
                                        [](const spec::Prediction& p) { return p.happened; });
    const double n = static_cast<double>(std::max<size_t>(predictions.size(), 1));
    figures.slots.push_back({.blocks = static_cast<int64_t>(predictions.size()),
                             .survival = static_cast<double>(survived) / n,
                             .error = spec::CalibrationError(predictions),
                             .area = spec::AreaUnderCurve(predictions)});
  }
  return figures;
}

Interval IntervalOf(const std::vector<double>& ratios) {
  const auto n = static_cast<double>(ratios.size());
  double sum = 0, squares = 0;
  for (const double r : ratios) sum += std::log(r);
  const double mean = sum / n;
  if (ratios.size() < 2) return {std::exp(mean), 0, HUGE_VAL};
  for (const double r : ratios) squares += (std::log(r) - mean) * (std::log(r) - mean);
  const double half = StudentAt(ratios.size() - 1) * std::sqrt(squares / (n - 1) / n);
  return {std::exp(mean), std::exp(mean - half), std::exp(mean + half)};
}

base::Json ToJson(const SpecFigures& figures) {
  base::Json speeds = base::Json::array(), steps = base::Json::array(),
             drafts = base::Json::array();
  for (const SpeedFigures& s : figures.speeds) speeds.push_back(ToJson(s));
  for (const spec::CostPoint& p : figures.costs.steps)
    steps.push_back({{"sequences", p.sequences}, {"rows", p.rows}, {"seconds", p.seconds}});
  for (const spec::DraftPoint& p : figures.costs.drafts)
    drafts.push_back({{"sequences", p.sequences}, {"seconds", p.seconds}});
  return {{"acceptance", ToJson(figures.acceptance)},
          {"costs", {{"steps", steps}, {"drafts", drafts}}},
          {"speed", speeds}};
}

std::string ToTable(const SpecFigures& figures) {
  return SlotTable(figures.acceptance) + "\n" + CostTableText(figures.costs) + "\n" +
         SpeedTable(figures.speeds);
}

Status WriteCurves(const std::filesystem::path& folder, const SpecFigures& figures) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return base::IoError(fmt::format("cannot make {}: {}", folder.string(), error.message()));
  std::string survival = "slot,blocks,survival,ece,auc\n", costs = "sequences,rows,seconds\n",
              drafting = "sequences,seconds\n",
              speed = "batch,off_tok_s,on_tok_s,gain,low,high,drafts,accepted\n";
  for (size_t k = 0; k < figures.acceptance.slots.size(); ++k) {
    const SlotFigures& s = figures.acceptance.slots[k];
    survival += fmt::format("{},{},{},{},{}\n", k + 1, s.blocks, s.survival, s.error, s.area);
  }
  for (const spec::CostPoint& p : figures.costs.steps)
    costs += fmt::format("{},{},{}\n", p.sequences, p.rows, p.seconds);
  for (const spec::DraftPoint& p : figures.costs.drafts)
    drafting += fmt::format("{},{}\n", p.sequences, p.seconds);
  for (const SpeedFigures& s : figures.speeds)
    speed += fmt::format("{},{},{},{},{},{},{},{}\n", s.batch, s.off_tok_s, s.on_tok_s, s.gain,
                         s.low, s.high, s.drafts_a_step, s.accepted_a_step);
  TW_TRY(base::WriteFile(folder / "survival.csv", survival));
  TW_TRY(base::WriteFile(folder / "costs.csv", costs));
  TW_TRY(base::WriteFile(folder / "drafting.csv", drafting));
  TW_TRY(base::WriteFile(folder / "speed.csv", speed));
  return base::WriteFile(folder / "spec.gp", kScript);
}

}  // namespace thalweg::tools::bench
