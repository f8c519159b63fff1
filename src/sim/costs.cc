#include "sim/costs.h"

#include <algorithm>

#include "base/check.h"
#include "base/mapped_file.h"
#include "sim/json_fields.h"
#include "sim/limits.h"

namespace thalweg::sim {
namespace {

using base::Json;

constexpr std::string_view kFormat = "thalweg costs";

double Line(double x0, double y0, double x1, double y1, double x) {
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

// Not of every machine known.
Result<double> ReadSpread(const JsonFields& fields) {
  if (!fields.Has("spread")) return 0.0;
  return fields.Real("spread", 0, kMostSpread);
}

Result<DecodeCosts> ReadDecode(const Json& json) {
  TW_ASSIGN(const JsonFields fields, JsonFields::Open(json, "decode", {"layers", "spread", "ops"}));
  DecodeCosts costs;
  TW_ASSIGN(costs.layers, fields.Integer("layers", 1, kMostLayers));
  TW_ASSIGN(costs.spread, ReadSpread(fields));
  TW_ASSIGN(const Json* ops, fields.Member("ops"));
  if (!ops->is_array() || ops->empty() || ops->size() > kMostOps)
    return base::InvalidArgument("decode.ops must be a list of ops");
  for (size_t i = 0; i < ops->size(); ++i) {
    TW_ASSIGN(
        const JsonFields op,
        JsonFields::Open((*ops)[i], "decode.ops[" + std::to_string(i) + "]", {"op", "points"}));
    TW_ASSIGN(std::string name, op.Text("op"));
    TW_ASSIGN(const auto rows, op.Rows("points", 3, kMostMicroseconds, kMostPoints));
    std::vector<OpCost::Point> points;
    for (const auto& row : rows) points.push_back({row[0], row[1], row[2]});
    costs.ops.emplace_back(std::move(name), points);
  }
  return costs;
}

Result<ExpertCosts> ReadExperts(const Json& json, const char* path) {
  TW_ASSIGN(const JsonFields fields,
            JsonFields::Open(json, path, {"fixed_us", "spread", "points"}));
  ExpertCosts costs;
  TW_ASSIGN(costs.fixed_us, fields.Real("fixed_us", 0, kMostMicroseconds));
  TW_ASSIGN(costs.spread, ReadSpread(fields));
  TW_ASSIGN(const auto rows, fields.Rows("points", 2, kMostMicroseconds, kMostPoints));
  std::vector<std::pair<double, double>> points;
  for (const auto& row : rows) points.emplace_back(row[0], row[1]);
  costs.us_of_rows = Curve(std::move(points));
  return costs;
}

Result<PrefillCosts> ReadPrefill(const Json& json) {
  TW_ASSIGN(const JsonFields fields, JsonFields::Open(json, "prefill",
                                                      {"layers", "fixed_us", "row_us",
                                                       "position_us", "tail_us", "experts"}));
  PrefillCosts costs;
  TW_ASSIGN(costs.layers, fields.Integer("layers", 1, kMostLayers));
  TW_ASSIGN(costs.fixed_us, fields.Real("fixed_us", 0, kMostMicroseconds));
  TW_ASSIGN(costs.row_us, fields.Real("row_us", 1e-6, 1e6));
  TW_ASSIGN(costs.position_us, fields.Real("position_us", 0, 1e3));
  TW_ASSIGN(costs.tail_us, fields.Real("tail_us", 0, kMostMicroseconds));
  if (!fields.Has("experts")) return costs;
  TW_ASSIGN(const Json* experts, fields.Member("experts"));
  TW_ASSIGN(costs.experts, ReadExperts(*experts, "prefill.experts"));
  return costs;
}

Result<Costs> FromJson(const Json& json) {
  TW_ASSIGN(const JsonFields fields,
            JsonFields::Open(json, "costs",
                             {"format", "version", "source", "decode", "experts", "prefill"}));
  TW_TRY(fields.CheckFormat(kFormat));
  Costs costs;
  TW_ASSIGN(costs.source, fields.Text("source"));
  TW_ASSIGN(const Json* decode, fields.Member("decode"));
  TW_ASSIGN(costs.decode, ReadDecode(*decode));
  TW_ASSIGN(const Json* experts, fields.Member("experts"));
  TW_ASSIGN(costs.experts, ReadExperts(*experts, "experts"));
  if (!fields.Has("prefill")) return costs;
  TW_ASSIGN(const Json* prefill, fields.Member("prefill"));
  TW_ASSIGN(costs.prefill, ReadPrefill(*prefill));
  return costs;
}

// Neighbouring sizes that share a value.
struct Level {
  double sum = 0;
  double count = 0;
  size_t sizes = 1;
  double mean() const { return sum / count; }
};

}  // namespace

Curve::Curve(std::vector<std::pair<double, double>> points) {
  TW_CHECK(!points.empty());
  std::sort(points.begin(), points.end());
  std::vector<double> sizes;
  std::vector<Level> levels;
  for (size_t i = 0; i < points.size();) {
    sizes.push_back(points[i].first);
    Level level;
    for (; i < points.size() && points[i].first == sizes.back(); ++i, ++level.count)
      level.sum += points[i].second;
    for (; !levels.empty() && levels.back().mean() > level.mean(); levels.pop_back()) {
      level.sum += levels.back().sum;
      level.count += levels.back().count;
      level.sizes += levels.back().sizes;
    }
    levels.push_back(level);
  }
  for (const Level& level : levels)
    for (size_t i = 0; i < level.sizes; ++i)
      points_.emplace_back(sizes[points_.size()], level.mean());
}

double Curve::At(double size) const {
  if (size <= points_.front().first || points_.size() == 1) return points_.front().second;
  auto to = std::upper_bound(points_.begin(), points_.end(), std::pair(size, 0.0),
                             [](const auto& a, const auto& b) { return a.first < b.first; });
  if (to == points_.end()) --to;
  const auto from = std::prev(to);
  return Line(from->first, from->second, to->first, to->second, size);
}

OpCost::OpCost(std::string op, const std::vector<Point>& points) : op_(std::move(op)) {
  std::map<double, std::vector<std::pair<double, double>>> by_context;
  for (const Point& p : points) by_context[p.context].emplace_back(p.rows, p.us);
  for (auto& [context, curve] : by_context) curves_.emplace(context, Curve(std::move(curve)));
}

double OpCost::At(double rows, double context) const {
  std::vector<std::pair<double, double>> over_contexts;
  for (const auto& [at, curve] : curves_) over_contexts.emplace_back(at, curve.At(rows));
  return Curve(std::move(over_contexts)).At(context);
}

Result<Costs> ParseCosts(std::string_view text, std::string_view what) {
  TW_ASSIGN(const Json json, base::ParseJson(text, what));
  Result<Costs> costs = FromJson(json);
  if (!costs.ok()) return costs.status().WithContext(what);
  return costs;
}

Result<Costs> ReadCosts(const std::filesystem::path& path) {
  TW_ASSIGN(const std::string text, base::ReadFile(path, kMaxFileBytes));
  return ParseCosts(text, path.string());
}

}  // namespace thalweg::sim
