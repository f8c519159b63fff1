// Named figures, for people and for programs; percentiles.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace thalweg::tools::bench {

struct Figure {
  std::string name;  // with its unit: "ttft_ms_p50"
  double value = 0;
};

// One line each.
std::string ToTable(const std::vector<Figure>& figures);
// One object.
base::Json ToJson(const std::vector<Figure>& figures);
// A line of names and a line of values.
std::string ToCsv(const std::vector<Figure>& figures);

// The smallest sample that at least `share` of all are not above (nearest rank); 0 of none.
double Percentile(const std::vector<double>& sorted, double share);

// Mean, p50, p90 and p99 of samples in seconds, as "<name>_ms_mean" and so on.
void AddPercentiles(const std::string& name, std::vector<double> seconds,
                    std::vector<Figure>* figures);

}  // namespace thalweg::tools::bench
