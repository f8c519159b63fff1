// What thalweg grammar bench says, for programs and for people.
#include "tools/bench/report.h"

#include <fmt/format.h>

#include <numeric>

#include "tools/grammar/bench.h"

namespace thalweg::tools {
namespace {

constexpr std::pair<const char*, double> kShares[] = {{"p50", 0.5},  {"p75", 0.75},    {"p90", 0.9},
                                                      {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};
constexpr size_t kShownFailures = 20;

double Mean(const std::vector<double>& samples) {
  if (samples.empty()) return 0;
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

base::Json Spread(const std::vector<double>& sorted) {
  base::Json json;
  json["avg"] = Mean(sorted);
  for (const auto& [name, share] : kShares) json[name] = bench::Percentile(sorted, share);
  return json;
}

std::string SpreadLine(const char* name, const std::vector<double>& sorted) {
  std::string line = fmt::format("{:<18}{:>10.1f}", name, Mean(sorted));
  for (const auto& [label, share] : kShares)
    line += fmt::format("{:>10.1f}", bench::Percentile(sorted, share));
  return line + "\n";
}

std::string SpreadHeader() {
  std::string line = fmt::format("{:<18}{:>10}", "microseconds", "avg");
  for (const auto& [label, share] : kShares) line += fmt::format("{:>10}", label);
  return line + "\n";
}

std::string Failures(const GrammarBenchReport& r) {
  std::string out;
  for (const auto& [keyword, count] : r.errors_by_keyword)
    out += fmt::format("{:>6} not compiled: {}\n", count, keyword);
  for (size_t i = 0; i < std::min(kShownFailures, r.failures.size()); ++i)
    out += fmt::format("  {}: {}\n", r.failures[i].file, r.failures[i].why);
  if (r.failures.size() > kShownFailures)
    out += fmt::format("  and {} more: --json has them all\n", r.failures.size() - kShownFailures);
  return out;
}

}  // namespace

base::Json ToJson(const GrammarBenchReport& r) {
  base::Json json;
  json["schemas"] = r.schemas;
  json["passed"] = r.passed;
  json["compile_errors"] = r.compile_errors;
  json["valid"] = r.valid;
  json["invalid"] = r.invalid;
  json["valid_refused"] = r.valid_refused;
  json["invalid_accepted"] = r.invalid_accepted;
  json["masks"] = r.mask_us.size();
  json["mask_us"] = Spread(r.mask_us);
  json["compile_us"] = Spread(r.compile_us);
  json["first_mask_us"] = Spread(r.first_mask_us);
  json["slowest"] = base::Json::array();
  for (const GrammarBenchReport::Slow& s : r.slowest) {
    json["slowest"].push_back(
        {{"file", s.file}, {"mask_us", s.mask_us}, {"compile_us", s.compile_us}});
  }
  json["largest_grammar_bytes"] = r.largest_grammar_bytes;
  json["peak_bytes"] = r.peak_bytes;
  json["compile_errors_by_keyword"] = base::Json::object();
  for (const auto& [keyword, count] : r.errors_by_keyword)
    json["compile_errors_by_keyword"][keyword] = count;
  json["failures"] = base::Json::array();
  for (const GrammarBenchReport::Failure& f : r.failures)
    json["failures"].push_back({{"file", f.file}, {"why", f.why}});
  return json;
}

std::string Describe(const GrammarBenchReport& r) {
  std::string out = fmt::format(
      "{} schemas: {} passed, {} not compiled\n{} valid instances, "
      "{} refused; {} invalid ones, {} "
      "accepted\n",
      r.schemas, r.passed, r.compile_errors, r.valid, r.valid_refused, r.invalid,
      r.invalid_accepted);
  out += SpreadHeader() + SpreadLine("mask", r.mask_us) + SpreadLine("compile", r.compile_us) +
         SpreadLine("first mask", r.first_mask_us);
  out += fmt::format("{} masks; largest grammar {:.1f} MiB, process {:.0f} MiB\n", r.mask_us.size(),
                     static_cast<double>(r.largest_grammar_bytes) / (1 << 20),
                     static_cast<double>(r.peak_bytes) / (1 << 20));
  return out + Failures(r);
}

}  // namespace thalweg::tools
