#include "tools/bench/sampling.h"

#include <fmt/format.h>

#include <utility>

#include "base/rng.h"
#include "sampling/sampler.h"
#include "tools/bench/clock.h"

namespace thalweg::tools::bench {
namespace {

using step::SamplingParams;

constexpr int64_t kPositions = 16;  // draws that a sample goes through
constexpr int32_t kHistory = 1000;  // tokens, for penalties

const std::vector<std::pair<std::string, SamplingParams>>& Kinds() {
  static const std::vector<std::pair<std::string, SamplingParams>> kinds = {
      {"greedy", {.temperature = 0}},
      {"temperature 1", {}},
      {"top_k 50", {.top_k = 50}},
      {"top_p 0.95", {.top_p = 0.95}},
      {"top_k 50, top_p 0.95", {.top_k = 50, .top_p = 0.95}},
      {"min_p 0.05", {.min_p = 0.05}},
      {"repetition_penalty 1.1", {.repetition_penalty = 1.1}},
      {"greedy, logprobs 20", {.temperature = 0, .logprobs = 20}}};
  return kinds;
}

// Sums of twelve uniform numbers are near enough to normal.
std::vector<float> NormalRow(int64_t vocab) {
  std::vector<float> row(static_cast<size_t>(vocab));
  for (size_t v = 0; v < row.size(); ++v) {
    double sum = -6;
    for (uint32_t i = 0; i < 3; ++i) {
      const auto words = base::Philox4x32({static_cast<uint32_t>(v), i, 0, 0}, {1, 2});
      for (const uint32_t word : words) sum += base::OpenUnit(word);
    }
    row[v] = static_cast<float>(3 * sum);
  }
  return row;
}

double MicrosecondsOf(const SamplingParams& params, const std::vector<float>& row, double seconds) {
  const auto vocab = static_cast<int64_t>(row.size());
  std::vector<int32_t> history;
  for (int32_t i = 0; i < kHistory; ++i)
    history.push_back(static_cast<int32_t>(int64_t{i} * 37 % vocab));
  const sampling::SequenceState state(params, vocab, std::move(history), kHistory / 2);
  sampling::Scratch scratch;
  std::vector<float> logits = row;
  const double each = FastestSeconds(seconds, kPositions, [&](int64_t position) {
    if (state.changes_logits()) logits = row;
    TW_CHECK(sampling::SampleRow(logits, state, position, nullptr, &scratch).ok());
  });
  return 1e6 * each;
}

}  // namespace

std::vector<SamplingFigure> BenchSampling(int64_t vocab, double seconds_each) {
  const std::vector<float> row = NormalRow(vocab);
  std::vector<SamplingFigure> figures;
  for (const auto& [name, params] : Kinds())
    figures.push_back({name, vocab, MicrosecondsOf(params, row, seconds_each)});
  return figures;
}

base::Json ToJson(const std::vector<SamplingFigure>& figures) {
  base::Json json = base::Json::array();
  for (const SamplingFigure& f : figures)
    json.push_back({{"params", f.params}, {"vocab", f.vocab}, {"us_per_row", f.us_per_row}});
  return json;
}

std::string ToTable(const std::vector<SamplingFigure>& figures) {
  std::string table = fmt::format("{:<24} {:>8} {:>10}\n", "params", "vocab", "us a row");
  for (const SamplingFigure& f : figures)
    table += fmt::format("{:<24} {:>8} {:>10.1f}\n", f.params, f.vocab, f.us_per_row);
  return table;
}

}  // namespace thalweg::tools::bench
