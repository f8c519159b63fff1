#include "tools/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <tuple>

#include "checkpoint/safetensors.h"
#include "tensor/formats.h"
#include "tools/forward_order.h"

namespace thalweg::tools {
namespace {

using checkpoint::SafetensorsFile;
using tensor::DType;
using tensor::View;

// Names that are no "<layer>/<point>" go behind the others, by name.
auto NameOrder(const std::string& name) {
  int layer = std::numeric_limits<int>::max();
  const size_t slash = name.find('/');
  if (slash != std::string::npos) {
    int parsed = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + slash, parsed);
    if (error == std::errc() && end == name.data() + slash) layer = parsed;
  }
  const std::string point = slash == std::string::npos ? name : name.substr(slash + 1);
  return std::tuple(layer, ForwardOrder(point), name);
}

std::vector<std::string> AllNames(const SafetensorsFile& a, const SafetensorsFile& b) {
  std::vector<std::string> names;
  for (const auto& entry : a.entries()) names.push_back(entry.name);
  for (const auto& entry : b.entries()) {
    if (!a.Find(entry.name)) names.push_back(entry.name);
  }
  std::sort(names.begin(), names.end(),
            [](const auto& x, const auto& y) { return NameOrder(x) < NameOrder(y); });
  return names;
}

// Element i as a number; nothing for types that dumps do not hold.
std::optional<double> Element(const View& view, int64_t i) {
  switch (view.dtype) {
    case DType::kF32: return view.as<float>()[i];
    case DType::kBF16: return tensor::ToFloat(view.as<tensor::BF16>()[i]);
    case DType::kI32: return view.as<int32_t>()[i];
    case DType::kI64: return static_cast<double>(view.as<int64_t>()[i]);
    case DType::kU8: return view.as<uint8_t>()[i];
    default: return std::nullopt;
  }
}

bool IsFloat(DType type) { return type == DType::kF32 || type == DType::kBF16; }

std::vector<int64_t> IndexOf(int64_t element, const tensor::Shape& shape) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()));
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[static_cast<size_t>(d)] = element % shape[d];
    element /= shape[d];
  }
  return index;
}

double Ratio(double part, double whole) {
  if (part == 0) return 0;
  return whole == 0 ? std::numeric_limits<double>::infinity() : part / whole;
}

// Running sums over the elements of two tensors.
struct Sums {
  double difference = 0, aa = 0, bb = 0, ab = 0;
  double max_abs = 0, largest = 0;
  int64_t worst = 0;

  void Add(int64_t i, double x, double y) {
    const double d = std::fabs(x - y);
    // Infinities that agree are equal; a number that is none never is.
    if (x == y) {
      if (!std::isfinite(x)) return;
    } else if (!(d <= max_abs)) {
      if (!std::isnan(max_abs)) worst = i;
      max_abs = d;
    }
    difference += x == y ? 0 : d * d;
    aa += x * x;
    bb += y * y;
    ab += x * y;
    largest = std::max(largest, std::fabs(x));
  }
};

void Fill(const Sums& sums, const tensor::Shape& shape, PointDifference* out) {
  out->max_abs = sums.max_abs;
  out->max_relative = Ratio(sums.max_abs, sums.largest);
  out->relative_rms = std::sqrt(Ratio(sums.difference, sums.aa));
  out->cosine = sums.aa == 0 && sums.bb == 0 ? 1 : Ratio(sums.ab, std::sqrt(sums.aa * sums.bb));
  if (shape.elements() > 0) out->worst_index = IndexOf(sums.worst, shape);
}

bool OverBudget(const PointDifference& d, DType type, const CompareBudget& budget) {
  if (!IsFloat(type)) return d.max_abs != 0;
  return !(d.relative_rms <= budget.relative_rms && d.max_abs <= budget.max_abs);
}

PointDifference CompareViews(const std::string& name, const View& a, const View& b,
                             const CompareBudget& budget) {
  PointDifference out{.name = name, .shape = a.shape.ToString(), .worst_index = {}, .note = {}};
  Sums sums;
  for (int64_t i = 0; i < a.shape.elements(); ++i) {
    const std::optional<double> x = Element(a, i);
    const std::optional<double> y = Element(b, i);
    if (!x || !y) {
      out.note = fmt::format("cannot compare dtype {}", tensor::SafetensorsName(a.dtype));
      out.over_budget = true;
      return out;
    }
    sums.Add(i, *x, *y);
  }
  Fill(sums, a.shape, &out);
  out.over_budget = OverBudget(out, a.dtype, budget);
  return out;
}

PointDifference CompareEntry(const std::string& name, const std::optional<View>& a,
                             const std::optional<View>& b, const CompareBudget& budget) {
  PointDifference out{
      .name = name, .shape = {}, .worst_index = {}, .over_budget = true, .note = {}};
  const auto text = [](const View& v) {
    return fmt::format("{} {}", tensor::SafetensorsName(v.dtype), v.shape.ToString());
  };
  if (!a || !b) {
    out.shape = a ? a->shape.ToString() : b->shape.ToString();
    out.note = a ? "only in the first file" : "only in the second file";
  } else if (a->dtype != b->dtype || !(a->shape == b->shape)) {
    out.shape = a->shape.ToString();
    out.note = fmt::format("{} in the first file, {} in the second", text(*a), text(*b));
  } else {
    return CompareViews(name, *a, *b, budget);
  }
  return out;
}

base::Json PointJson(const PointDifference& d) {
  base::Json json = {{"name", d.name},
                     {"shape", d.shape},
                     {"worst_index", d.worst_index},
                     {"max_abs", d.max_abs},
                     {"max_relative", d.max_relative},
                     {"relative_rms", d.relative_rms},
                     {"cosine", d.cosine},
                     {"over_budget", d.over_budget}};
  if (!d.note.empty()) json["note"] = d.note;
  return json;
}

std::string Describe(const PointDifference& d) {
  if (!d.note.empty()) return fmt::format("{} {}: {}", d.name, d.shape, d.note);
  return fmt::format(
      "{} {}: worst at [{}], max abs {:.6g}, max relative {:.6g}, relative RMS {:.6g}, cosine "
      "{:.9f}",
      d.name, d.shape, fmt::join(d.worst_index, ", "), d.max_abs, d.max_relative, d.relative_rms,
      d.cosine);
}

}  // namespace

const PointDifference* CompareReport::FirstOverBudget() const {
  const auto at = std::find_if(points.begin(), points.end(),
                               [](const PointDifference& d) { return d.over_budget; });
  return at == points.end() ? nullptr : &*at;
}

Result<CompareReport> CompareDumps(const std::filesystem::path& a, const std::filesystem::path& b,
                                   const CompareBudget& budget) {
  TW_ASSIGN(const SafetensorsFile first, SafetensorsFile::Open(a));
  TW_ASSIGN(const SafetensorsFile second, SafetensorsFile::Open(b));
  CompareReport report{.a = a.string(), .b = b.string(), .points = {}};
  bool common = false;
  for (const std::string& name : AllNames(first, second)) {
    const auto x = first.Find(name);
    const auto y = second.Find(name);
    common = common || (x && y);
    report.points.push_back(CompareEntry(name, x, y, budget));
  }
  if (!common)
    return base::InvalidArgument(
        fmt::format("{} and {} have no point in common: nothing to compare", report.a, report.b));
  return report;
}

std::string ToText(const CompareReport& report) {
  const auto over = std::count_if(report.points.begin(), report.points.end(),
                                  [](const PointDifference& d) { return d.over_budget; });
  const PointDifference* first = report.FirstOverBudget();
  if (first == nullptr)
    return fmt::format("all {} points are within budget\n", report.points.size());
  return fmt::format("first over budget: {}\n{} of {} points are over budget\n", Describe(*first),
                     over, report.points.size());
}

base::Json ToJson(const CompareReport& report) {
  const PointDifference* first = report.FirstOverBudget();
  base::Json json = {{"a", report.a}, {"b", report.b}, {"ok", report.ok()}};
  json["first_over_budget"] = first == nullptr ? base::Json() : PointJson(*first);
  json["points"] = base::Json::array();
  for (const PointDifference& d : report.points) json["points"].push_back(PointJson(d));
  return json;
}

}  // namespace thalweg::tools
