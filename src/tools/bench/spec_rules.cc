#include "tools/bench/spec_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string_view>

#include "engine/engine.h"
#include "tools/bench/kernel.h"
#include "tools/bench/serving.h"
#include "tools/bench/spec.h"
#include "tools/documents.h"
#include "tools/session.h"

namespace thalweg::tools::bench {
namespace {

constexpr int64_t kMostRuleBatch = 4096;
constexpr int64_t kLeastRuleRequests = 6;

struct Rule {
  std::string_view name;
  bool drafts = false, costs = false, variable = false;
};

constexpr std::array kRules = {Rule{"off"}, Rule{"whole", true, false, false},
                               Rule{"paying", true, true, false}, Rule{"varlen", true, true, true}};

using Engines = std::array<std::unique_ptr<engine::Engine>, kRules.size()>;

Result<Engines> OpenAll(const base::OptionValues& values, int64_t most) {
  TW_ASSIGN(engine::EngineOptions options, engine::EngineOptions::From(values));
  const int64_t drafts = options.draft_tokens > 0 ? options.draft_tokens : 5;
  options.max_sequences = most;
  options.max_rows = std::max(options.max_rows, most * 8);
  Engines engines;
  for (size_t i = 0; i < kRules.size(); ++i) {
    options.draft_tokens = kRules[i].drafts ? drafts : 0;
    options.draft_varlen = kRules[i].variable;
    options.draft_costs = kRules[i].costs;
    TW_ASSIGN(engines[i], engine::Engine::Load(options));
  }
  return engines;
}

// What is asked: some prompts at some temperature.
struct Asked {
  std::string prompts = {};
  double temperature = 0;
  std::vector<std::vector<int32_t>> ids = {};
};

std::vector<std::vector<int32_t>> PromptsOf(const std::vector<Document>& documents) {
  std::vector<std::vector<int32_t>> prompts;
  for (const Document& d : documents) prompts.push_back(d.ids);
  return prompts;
}

// Random prompts; those that are given, greedily and at the temperature that is given.
Result<std::vector<Asked>> AllAsked(const base::OptionValues& values, int64_t requests) {
  TW_ASSIGN(const SessionOptions options, SessionOptions::From(values));
  TW_ASSIGN(const Session session, OpenSession(options));
  TW_ASSIGN(LoadOptions load, LoadOptions::From(values, 1));
  load.requests = requests;
  TW_ASSIGN(const auto made, MakeLoad(load, session.config().vocab_size, {}));
  std::vector<Asked> asked = {{.prompts = "random"}};
  for (const LoadRequest& r : made) asked[0].ids.push_back(r.prompt);
  if (!values.Has("prompts")) return asked;
  TW_ASSIGN(const auto documents, ReadDocumentFile(values.Text("prompts"), session));
  asked.push_back({.prompts = "given", .ids = PromptsOf(documents)});
  if (load.temperature > 0) {
    asked.push_back(
        {.prompts = "given", .temperature = load.temperature, .ids = PromptsOf(documents)});
  }
  return asked;
}

// Other prompts of those that are asked in each round.
std::vector<LoadRequest> LoadOf(const Asked& asked, const LoadOptions& options, int64_t tokens,
                                int64_t round) {
  std::vector<LoadRequest> load;
  for (int64_t i = 0; i < options.requests; ++i) {
    const auto at = static_cast<size_t>(round * options.requests + i) % asked.ids.size();
    load.push_back({.prompt = asked.ids[at], .output_tokens = tokens});
  }
  return load;
}

double ValueOf(const std::vector<Figure>& figures, std::string_view name) {
  const auto at =
      std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.name == name; });
  return at == figures.end() ? 0 : at->value;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// What became of one rule over the rounds.
struct Record {
  std::vector<double> tok_s = {}, ratios = {};
  double steps = 0, drafted = 0, accepted = 0;
  int64_t answers = 0, differ = 0;
};

struct Run {
  std::vector<Figure> figures = {};
  Answers answers = {};
};

void Note(const Run& run, const Run& off, bool timed, Record* record) {
  for (size_t i = 0; i < run.answers.size(); ++i) {
    ++record->answers;
    record->differ += run.answers[i] == off.answers[i] ? 0 : 1;
  }
  if (!timed) return;
  record->tok_s.push_back(ValueOf(run.figures, "output_tok_per_s"));
  record->ratios.push_back(record->tok_s.back() / ValueOf(off.figures, "output_tok_per_s"));
  record->steps += ValueOf(run.figures, "steps");
  record->drafted += ValueOf(run.figures, "drafted");
  record->accepted += ValueOf(run.figures, "accepted");
}

RuleFigures FiguresOf(const Record& record, const Rule& rule, const Asked& asked, int64_t batch) {
  const Interval gain = IntervalOf(record.ratios);
  const double each = std::max(record.steps, 1.0) * static_cast<double>(batch);
  return {.prompts = asked.prompts,
          .temperature = asked.temperature,
          .batch = batch,
          .rule = std::string(rule.name),
          .tok_s = Median(record.tok_s),
          .gain = gain.mean,
          .low = gain.low,
          .high = gain.high,
          .steps = record.steps / static_cast<double>(record.tok_s.size()),
          .drafts_a_step = record.drafted / each,
          .accepted_a_step = record.accepted / each,
          .answers = record.answers,
          .differ = record.differ};
}

// All engines in turns, another one first each time. The first round is for warmth.
Status Compare(const Engines& engines, const Asked& asked, int64_t batch,
               const base::OptionValues& values, std::vector<RuleFigures>* figures) {
  const LoadOptions options{
      .requests =
          values.OptionalInteger("requests").value_or(std::max(3 * batch, kLeastRuleRequests)),
      .concurrency = batch,
      .temperature = asked.temperature};
  std::array<Record, kRules.size()> records;
  for (int64_t round = 0; round <= values.Integer("pairs"); ++round) {
    const auto load = LoadOf(asked, options, values.Integer("tokens"), round);
    std::array<Run, kRules.size()> runs;
    for (size_t turn = 0; turn < kRules.size(); ++turn) {
      const size_t i = (turn + static_cast<size_t>(round)) % kRules.size();
      TW_ASSIGN(runs[i].figures, BenchServing(*engines[i], options, load, &runs[i].answers));
    }
    for (size_t i = 0; i < kRules.size(); ++i) Note(runs[i], runs[0], round > 0, &records[i]);
  }
  for (size_t i = 0; i < kRules.size(); ++i)
    figures->push_back(FiguresOf(records[i], kRules[i], asked, batch));
  return {};
}

Status Judge(const std::vector<RuleFigures>& figures) {
  int64_t differ = 0, answers = 0;
  for (const RuleFigures& f : figures) differ += f.differ, answers += f.answers;
  if (differ == 0) return {};
  return base::Internal(
      fmt::format("{} of {} answers have other tokens than without drafts", differ, answers));
}

}  // namespace

std::string ToTable(const std::vector<RuleFigures>& figures) {
  std::string out =
      fmt::format("{:<8} {:>4} {:>9} {:<7} {:>9} {:>6} {:>15} {:>7} {:>7} {:>9} {:>13}\n",
                  "prompts", "T", "sequences", "rule", "tok/s", "gain", "95 %", "steps", "drafts",
                  "accepted", "others/answers");
  for (const RuleFigures& f : figures) {
    out += fmt::format(
        "{:<8} {:>4.1f} {:>9} {:<7} {:>9.0f} {:>6.3f} {:>7.3f}-{:<7.3f} {:>7.1f} {:>7.2f} "
        "{:>9.2f} {:>7}/{}\n",
        f.prompts, f.temperature, f.batch, f.rule, f.tok_s, f.gain, f.low, f.high, f.steps,
        f.drafts_a_step, f.accepted_a_step, f.differ, f.answers);
  }
  return out;
}

Status BenchSpecRulesCommand(const base::OptionValues& values) {
  TW_ASSIGN(const std::vector<int64_t> batches,
            ParseCounts(values.Text("batch"), "batch", kMostRuleBatch));
  const int64_t most = *std::max_element(batches.begin(), batches.end());
  TW_ASSIGN(const std::vector<Asked> all,
            AllAsked(values, 3 * most * (1 + values.Integer("pairs"))));
  TW_ASSIGN(const Engines engines, OpenAll(values, most));
  std::vector<RuleFigures> figures;
  for (const Asked& asked : all) {
    for (const int64_t batch : batches) {
      std::vector<RuleFigures> of_load;
      TW_TRY(Compare(engines, asked, batch, values, &of_load));
      const std::string table = ToTable(of_load);
      fmt::print("{}", figures.empty() ? table : table.substr(table.find('\n') + 1));
      std::fflush(stdout);
      figures.insert(figures.end(), of_load.begin(), of_load.end());
    }
  }
  return Judge(figures);
}

}  // namespace thalweg::tools::bench
