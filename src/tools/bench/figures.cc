#include "tools/bench/figures.h"

#include <fmt/format.h>

namespace thalweg::tools::bench {

void AddOpFigures(const std::map<std::string, double>& seconds, int64_t tokens,
                  const ModelFigure& of, std::vector<ModelFigure>* figures) {
  double all = 0;
  for (const auto& [op, s] : seconds) all += s;
  for (const auto& [op, s] : seconds) {
    ModelFigure figure = of;
    figure.phase += " " + op;
    figure.tokens_per_s = static_cast<double>(tokens) / s;
    figure.ms_per_step = s * 1e3;
    figure.share = s / all;
    figures->push_back(figure);
  }
}

base::Json ToJson(const std::vector<ModelFigure>& figures) {
  base::Json json = base::Json::array();
  for (const ModelFigure& f : figures) {
    json.push_back({{"phase", f.phase},
                    {"layers", f.layers},
                    {"batch", f.batch},
                    {"context", f.context},
                    {"tokens_per_s", f.tokens_per_s},
                    {"ms_per_step", f.ms_per_step},
                    {"share", f.share},
                    {"launches", f.launches}});
  }
  return json;
}

std::string ToTable(const std::vector<ModelFigure>& figures) {
  std::string table =
      fmt::format("{:<16} {:>6} {:>6} {:>8} {:>10} {:>12} {:>6} {:>8}\n", "phase", "layers",
                  "batch", "context", "tok/s", "ms a step", "share", "launches");
  for (const ModelFigure& f : figures) {
    table += fmt::format("{:<16} {:>6} {:>6} {:>8} {:>10.1f} {:>12.3f} {:>6.2f} {:>8.1f}\n",
                         f.phase, f.layers, f.batch, f.context, f.tokens_per_s, f.ms_per_step,
                         f.share, f.launches);
  }
  return table;
}

}  // namespace thalweg::tools::bench
