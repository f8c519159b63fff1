// Speculation changes no token and no bit of a log-probability: greedy and seeded sequences of
// nano, alone and in batches of 8 and 64, with blocks of fixed and of variable length, are those of
// plain decoding. The sweep of the program says how much of it is run: everything
// (542 prompts, 256 tokens each) is labelled slow.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <ostream>
#include <tuple>

#include "spec/cost_table.h"
#include "tests/engine/harness.h"
#include "tests/engine/sweep.h"
#include "tests/nano/nano_files.h"

namespace thalweg::tests {
namespace {

using engine::EngineOptions;
using engine::GenerateRequest;

// The published prompts, and beginnings of held-out documents, 1 to 64 tokens long.
std::vector<std::vector<int32_t>> Prompts() {
  std::vector<std::vector<int32_t>> all;
  for (const base::Json& p : ReadJson(SourceDir() / "tests/data/nano/prompts.json"))
    all.push_back(p["ids"].get<std::vector<int32_t>>());
  for (const base::Json& document : Heldout()) {
    auto ids = document["ids"].get<std::vector<int32_t>>();
    ids.resize(std::min(ids.size(), 1 + all.size() * 7 % 64));
    all.push_back(std::move(ids));
  }
  return all;
}

std::vector<GenerateRequest> Requests(double temperature) {
  std::vector<GenerateRequest> requests;
  const auto prompts = Prompts();
  for (size_t i = 0; i < prompts.size(); i += TheEngineSweep().prompt_step) {
    GenerateRequest& r = requests.emplace_back();
    r.prompt = prompts[i];
    r.max_tokens = TheEngineSweep().tokens;
    r.seed = i;
    r.sampling.temperature = temperature;
    r.sampling.ignore_eos = true;
    r.sampling.logprobs = 0;
  }
  return requests;
}

EngineOptions OptionsFor(int64_t batch) {
  EngineOptions options = NanoOptions();
  options.max_sequences = batch;
  options.max_rows = std::max<int64_t>(64, 6 * batch);
  options.cache_tokens = 64 * 448;
  options.prefix_reuse = false;
  return options;
}

// Costs are measured, and then made those of a machine on which drafts pay, so that confidences
// decide and not the processor that the test happens to run on.
class CostFiles {
 public:
  CostFiles() : folder_(testing::TempDir() + fmt::format("thalweg_costs{}", ::getpid())) {
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~CostFiles() { std::filesystem::remove_all(folder_); }

  void MakeDraftsPay() const {
    const std::filesystem::path costs = folder_ / "thalweg" / "costs";
    for (const auto& file : std::filesystem::directory_iterator(costs)) {
      const Result<std::string> text = base::ReadFile(file.path(), 1 << 20);
      TW_CHECK(text.ok());
      Result<spec::CostProfile> profile = spec::ParseCostProfile(*text, "costs");
      TW_CHECK(profile.ok());
      for (spec::CostPoint& p : profile->steps)
        p.seconds = 1e-3 * std::sqrt(static_cast<double>(p.rows));
      for (spec::DraftPoint& p : profile->drafts) p.seconds = 1e-6;
      TW_CHECK(spec::WriteCostProfile(costs, *profile).ok());
    }
  }

 private:
  std::filesystem::path folder_;
};

struct Mode {
  int64_t batch = 1;
  bool variable = false;
};

// How GoogleTest calls it.
std::ostream& operator<<(std::ostream& out, const Mode& mode) {
  return out << mode.batch << (mode.variable ? " variable" : " fixed");
}

std::vector<Answer> RunDrafted(const Mode& mode, const std::vector<GenerateRequest>& requests) {
  EngineOptions options = OptionsFor(mode.batch);
  options.draft_tokens = 5;
  options.draft_varlen = mode.variable;
  options.draft_costs = mode.variable;
  const CostFiles costs;
  if (mode.variable) {
    LoadEngine(options);
    costs.MakeDraftsPay();
  }
  const auto engine = LoadEngine(options);
  std::vector<Answer> answers = RunAll(*engine, requests);
  const sched::SchedulerStats stats = engine->metrics().scheduler;
  fmt::print("batch {}, {} length: {} steps, {} drafts verified, {} accepted\n", mode.batch,
             mode.variable ? "variable" : "fixed", stats.plans, stats.drafted, stats.accepted);
  EXPECT_GT(stats.accepted, requests.size() * static_cast<size_t>(TheEngineSweep().tokens) / 4);
  return answers;
}

// Costs of large batches take half a minute to measure.
std::vector<Mode> Modes() {
  std::vector<Mode> modes = {{64, false}, {8, false}, {1, false}, {1, true}};
  for (const int64_t batch :
       TheEngineSweep().prompt_step == 1 ? std::vector<int64_t>{8, 64} : std::vector<int64_t>{3})
    modes.push_back({batch, true});
  return modes;
}

// Without drafts, once for each temperature in a process.
const std::vector<Answer>& Plain(double temperature) {
  static std::map<double, std::vector<Answer>> known;
  const auto [at, fresh] = known.try_emplace(temperature);
  if (fresh) at->second = RunAll(*LoadEngine(OptionsFor(64)), Requests(temperature));
  return at->second;
}

// A test for each mode, so that processes can share them (GTEST_TOTAL_SHARDS).
class SpeculationIdentity : public testing::TestWithParam<std::tuple<double, Mode>> {};

TEST_P(SpeculationIdentity, SameTokensAndLogprobs) {
  const auto& [temperature, mode] = GetParam();
  const std::vector<Answer>& plain = Plain(temperature);
  const std::vector<Answer> drafted = RunDrafted(mode, Requests(temperature));
  ASSERT_EQ(plain.size(), drafted.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    ASSERT_EQ(std::ssize(plain[i].tokens), TheEngineSweep().tokens) << plain[i].status.ToString();
    ASSERT_EQ(Difference(plain[i], drafted[i]), "") << "prompt " << i;
  }
}

std::string NameOf(const testing::TestParamInfo<std::tuple<double, Mode>>& info) {
  const auto& [temperature, mode] = info.param;
  return fmt::format("{}Batch{}{}", temperature > 0 ? "Seeded" : "Greedy", mode.batch,
                     mode.variable ? "Variable" : "Fixed");
}

INSTANTIATE_TEST_SUITE_P(All, SpeculationIdentity,
                         testing::Combine(testing::Values(0.0, 0.8), testing::ValuesIn(Modes())),
                         NameOf);

}  // namespace
}  // namespace thalweg::tests
