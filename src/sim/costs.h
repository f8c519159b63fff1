// What the parts of a step cost on one rank, as measured (`thalweg bench costs` writes such files)
// or put together by hand: {"format": "thalweg costs", "version": 1, ...}, docs/evaluation.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace thalweg::sim {

// Time over some size, from measured points: straight lines between them, the first value below
// the first, the last line's slope behind the last. A larger size never costs less: where points
// fall, neighbours share their mean (the rising curve that is nearest to the points by least
// squares), so that one measured too slow lifts no others.
class Curve {
 public:
  // At least one point; sizes may repeat (their mean counts, as often as they do).
  explicit Curve(std::vector<std::pair<double, double>> points);
  double At(double size) const;

 private:
  std::vector<std::pair<double, double>> points_;  // ascending sizes
};

// Of one op in a whole decode step: over its rows, for some contexts, between which costs are
// straight lines.
class OpCost {
 public:
  struct Point {
    double rows = 0;
    double context = 0;
    double us = 0;
  };
  OpCost(std::string op, const std::vector<Point>& points);
  const std::string& op() const { return op_; }
  double At(double rows, double context) const;

 private:
  std::string op_;
  std::map<double, Curve> curves_;  // by context
};

struct DecodeCosts {
  int64_t layers = 0;            // with routed experts, in which ranks exchange rows
  std::vector<OpCost> ops = {};  // everything but routed experts, layers and head together
  // Standard deviation of what a rank needs for a layer's ops from one step to the next, as a share
  // of it: ranks wait for the slowest.
  double spread = 0;
};

// A rank's experts in one layer: fixed_us, and for each that is touched its curve over its rows.
struct ExpertCosts {
  double fixed_us = 0;
  Curve us_of_rows = Curve({{0, 0}});
  double spread = 0;  // as of decode, of the same experts and rows
};

// A prompt's way through the layers that all of its rows take: a step of some rows costs fixed_us,
// row_us for each, and position_us more for each position before it; experts come on top. A prompt
// costs tail_us once (last rows in the other layers, head).
struct PrefillCosts {
  int64_t layers = 0;
  double fixed_us = 0;
  double row_us = 0;
  double position_us = 0;
  double tail_us = 0;
  // What experts cost in steps of prompts, where that was measured apart; otherwise as in decode.
  std::optional<ExpertCosts> experts = {};
};

struct Costs {
  std::string source = {};  // machine and commands, for people
  DecodeCosts decode = {};
  ExpertCosts experts = {};
  PrefillCosts prefill = {};  // no layers: not measured
};

Result<Costs> ParseCosts(std::string_view text, std::string_view what);
Result<Costs> ReadCosts(const std::filesystem::path& path);

}  // namespace thalweg::sim
