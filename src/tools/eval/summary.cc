#include "tools/eval/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <tuple>

namespace thalweg::tools::eval {
namespace {

constexpr double kZ = 1.959963984540054;  // 95 % of a normal distribution are within

struct Tally {
  int64_t n = 0;
  int64_t hits = 0;
};

// Documents of a group.
struct Likelihoods {
  std::vector<const Score*> documents;

  double Sum(double (*of)(const Score&)) const {
    double sum = 0;
    for (const Score* one : documents) sum += of(*one);
    return sum;
  }
};

double Nll(const Score& s) { return s.nll; }
double Tokens(const Score& s) { return static_cast<double>(s.tokens); }
double Bytes(const Score& s) { return static_cast<double>(s.bytes); }

struct Mean {
  double value = 0;
  double error = 0;
};

// sum of nll over sum of `size`, and its standard error when documents are drawn independently.
Mean RatioOf(const Likelihoods& group, double (*size)(const Score&)) {
  const double all = group.Sum(size);
  if (all <= 0) return {};
  Mean mean{.value = group.Sum(Nll) / all};
  double squares = 0;
  for (const Score* one : group.documents) {
    const double apart = Nll(*one) - mean.value * size(*one);
    squares += apart * apart;
  }
  const auto n = static_cast<double>(group.documents.size());
  if (n > 1) mean.error = std::sqrt(squares * n / (n - 1)) / all;
  return mean;
}

void AddLikelihood(const std::string& group, const Likelihoods& all,
                   std::vector<EvalFigure>* figures) {
  EvalFigure figure{.kind = Kind::kPerplexity,
                    .group = group,
                    .metric = "perplexity",
                    .items = static_cast<int64_t>(all.documents.size()),
                    .tokens = static_cast<int64_t>(all.Sum(Tokens))};
  const Mean mean = RatioOf(all, Tokens);
  figure.value = std::exp(mean.value);
  figure.standard_error = figure.value * mean.error;
  figure.interval = {std::exp(mean.value - kZ * mean.error),
                     std::exp(mean.value + kZ * mean.error)};
  figures->push_back(figure);
  const Mean bits = RatioOf(all, Bytes);
  figure.metric = "bits_per_byte";
  figure.value = bits.value / std::numbers::ln2;
  figure.standard_error = bits.error / std::numbers::ln2;
  figure.interval = {figure.value - kZ * figure.standard_error,
                     figure.value + kZ * figure.standard_error};
  figures->push_back(figure);
}

EvalFigure ShareFigure(Kind kind, const std::string& group, const std::string& metric,
                       const Tally& tally) {
  const auto n = static_cast<double>(tally.n);
  const double share = static_cast<double>(tally.hits) / n;
  return {.kind = kind,
          .group = group,
          .metric = metric,
          .items = tally.n,
          .value = share,
          .standard_error = std::sqrt(share * (1 - share) / n),
          .interval = WilsonInterval(tally.hits, tally.n)};
}

using ShareKey = std::tuple<Kind, std::string, std::string>;  // kind, group, metric

void CountMarks(const Score& score, std::map<ShareKey, Tally>* shares) {
  for (const auto& [metric, yes] : score.marks) {
    for (const std::string& group : {std::string(), score.group}) {
      Tally& tally = (*shares)[{score.kind, group, metric}];
      ++tally.n;
      tally.hits += yes ? 1 : 0;
    }
  }
}

base::Json FigureJson(const EvalFigure& f) {
  base::Json json = {{"kind", KindName(f.kind)},
                     {"group", f.group.empty() ? base::Json(nullptr) : base::Json(f.group)},
                     {"metric", f.metric},
                     {"items", f.items},
                     {"value", f.value},
                     {"standard_error", f.standard_error},
                     {"low", f.interval.low},
                     {"high", f.interval.high}};
  if (f.tokens > 0) json["tokens"] = f.tokens;
  return json;
}

}  // namespace

Interval WilsonInterval(int64_t hits, int64_t n) {
  if (n <= 0) return {};
  const auto count = static_cast<double>(n);
  const double share = static_cast<double>(hits) / count;
  const double shrink = 1 + kZ * kZ / count;
  const double middle = (share + kZ * kZ / (2 * count)) / shrink;
  const double half =
      kZ / shrink * std::sqrt(share * (1 - share) / count + kZ * kZ / (4 * count * count));
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

EvalSummary Summarise(std::span<const Score> scores) {
  EvalSummary summary;
  std::map<std::string, Likelihoods> likelihoods;
  std::map<ShareKey, Tally> shares;
  for (const Score& score : scores) {
    ++summary.items;
    summary.errors += score.error ? 1 : 0;
    if (score.error) continue;
    CountMarks(score, &shares);
    if (score.kind != Kind::kPerplexity) continue;
    for (const std::string& group : {std::string(), score.group})
      likelihoods[group].documents.push_back(&score);
  }
  for (const auto& [group, all] : likelihoods) AddLikelihood(group, all, &summary.figures);
  for (const auto& [key, tally] : shares) {
    const auto& [kind, group, metric] = key;
    summary.figures.push_back(ShareFigure(kind, group, metric, tally));
  }
  return summary;
}

std::string ToTable(const EvalSummary& summary) {
  std::string table = fmt::format(
      "{} items, {} errors\n{:<10} {:<20} {:<18} {:>6} {:>9} {:>9} {:>9} {:>9}\n", summary.items,
      summary.errors, "kind", "group", "metric", "items", "value", "error", "95 % from", "to");
  for (const EvalFigure& f : summary.figures) {
    table += fmt::format("{:<10} {:<20} {:<18} {:>6} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f}\n",
                         KindName(f.kind), f.group.empty() ? "all" : f.group, f.metric, f.items,
                         f.value, f.standard_error, f.interval.low, f.interval.high);
  }
  return table;
}

base::Json ToJson(const EvalSummary& summary) {
  base::Json json = {{"items", summary.items}, {"errors", summary.errors}};
  json["figures"] = base::Json::array();
  for (const EvalFigure& f : summary.figures) json["figures"].push_back(FigureJson(f));
  return json;
}

}  // namespace thalweg::tools::eval
