#include "tools/bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace thalweg::tools::bench {

std::string ToTable(const std::vector<Figure>& figures) {
  std::string table;
  for (const Figure& f : figures) table += fmt::format("{:<28} {:>14.6g}\n", f.name, f.value);
  return table;
}

base::Json ToJson(const std::vector<Figure>& figures) {
  base::Json json = base::Json::object();
  for (const Figure& f : figures) json[f.name] = f.value;
  return json;
}

std::string ToCsv(const std::vector<Figure>& figures) {
  std::string names, values;
  for (const Figure& f : figures) {
    const char* comma = names.empty() ? "" : ",";
    names += fmt::format("{}{}", comma, f.name);
    values += fmt::format("{}{:.9g}", comma, f.value);
  }
  return names + "\n" + values + "\n";
}

double Percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  const auto place = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(place, sorted.size() - 1)];
}

void AddPercentiles(const std::string& name, std::vector<double> seconds,
                    std::vector<Figure>* figures) {
  std::sort(seconds.begin(), seconds.end());
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const auto count = static_cast<double>(std::max<size_t>(seconds.size(), 1));
  figures->push_back({name + "_ms_mean", 1e3 * sum / count});
  figures->push_back({name + "_ms_p50", 1e3 * Percentile(seconds, 0.5)});
  figures->push_back({name + "_ms_p90", 1e3 * Percentile(seconds, 0.9)});
  figures->push_back({name + "_ms_p99", 1e3 * Percentile(seconds, 0.99)});
}

}  // namespace thalweg::tools::bench
