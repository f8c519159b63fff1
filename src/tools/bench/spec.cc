#include "tools/bench/spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/engine.h"
#include "exec/draft_costs.h"
#include "tools/bench/kernel.h"
#include "tools/bench/serving.h"
#include "tools/bench/spec_rules.h"
#include "tools/documents.h"
#include "tools/draft_replay.h"
#include "tools/option_rows.h"
#include "tools/progress.h"
#include "tools/session.h"

namespace thalweg::tools::bench {
namespace {

constexpr int64_t kMostSpecBatch = 4096;
constexpr int64_t kLeastRequests = 32;  // of a run

using Prompts = std::vector<Document>;

Result<Session> OpenDrafter(const base::OptionValues& values, int64_t sequences) {
  TW_ASSIGN(SessionOptions options, SessionOptions::From(values));
  options.draft = true;
  options.max_sequences = sequences;
  options.max_rows = std::max(options.max_rows, sequences * 8);
  options.max_tokens = sequences * 1024;
  options.blocks_from_outside = true;
  return OpenSession(options);
}

Result<AcceptanceFigures> Answer(const base::OptionValues& values, const Prompts& prompts,
                                 Session* session) {
  const std::vector<int32_t> ends = session->EndTokens();
  Progress progress("answering", static_cast<int64_t>(prompts.size()));
  std::vector<spec::VerifiedBlock> blocks;
  int64_t tokens = 0, steps = 0;
  for (const Document& prompt : prompts) {
    TW_ASSIGN(DraftedAnswer answer,
              AnswerWithDrafts(*session->model, prompt.ids, ends, values.Integer("tokens")));
    tokens += answer.tokens;
    steps += answer.steps;
    std::move(answer.blocks.begin(), answer.blocks.end(), std::back_inserter(blocks));
    progress.Advance("");
  }
  AcceptanceFigures figures =
      AcceptanceOf(blocks, static_cast<size_t>(session->config().dspark_block_size));
  figures.answers = static_cast<int64_t>(prompts.size());
  figures.tokens = tokens;
  figures.steps = steps;
  return figures;
}

// The engine that the options name, with so many drafts.
Result<std::unique_ptr<engine::Engine>> Open(engine::EngineOptions options, int64_t drafts,
                                             int64_t sequences) {
  options.draft_tokens = drafts;
  if (drafts == 0) options.draft_varlen = false;
  options.max_sequences = sequences;
  options.max_rows = std::max(options.max_rows, sequences * 8);
  return engine::Engine::Load(options);
}

std::vector<LoadRequest> LoadOf(const Prompts& prompts, int64_t count, int64_t tokens) {
  std::vector<LoadRequest> load;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i) % prompts.size();
    load.push_back({.prompt = prompts[at].ids, .output_tokens = tokens});
  }
  return load;
}

double ValueOf(const std::vector<Figure>& figures, std::string_view name) {
  for (const Figure& f : figures) {
    if (f.name == name) return f.value;
  }
  return 0;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Pair {
  engine::Engine* off;
  engine::Engine* on;
};

// One run of each; whoever was first is second the next time. The first pair is for warmth.
Result<SpeedFigures> Compare(const Pair& engines, const LoadOptions& options,
                             const std::vector<LoadRequest>& load, int64_t pairs) {
  std::vector<double> ratios, off, on;
  double steps = 0, drafted = 0, accepted = 0;
  for (int64_t i = 0; i <= pairs; ++i) {
    std::vector<Figure> made[2];  // off, on
    for (const int64_t turn : {i % 2, 1 - i % 2}) {
      engine::Engine& engine = turn == 0 ? *engines.off : *engines.on;
      TW_ASSIGN(made[turn], BenchServing(engine, options, load));
    }
    if (i == 0) continue;
    off.push_back(ValueOf(made[0], "output_tok_per_s"));
    on.push_back(ValueOf(made[1], "output_tok_per_s"));
    ratios.push_back(on.back() / off.back());
    steps += ValueOf(made[1], "steps");
    drafted += ValueOf(made[1], "drafted");
    accepted += ValueOf(made[1], "accepted");
  }
  const Interval gain = IntervalOf(ratios);
  return SpeedFigures{.batch = options.concurrency,
                      .off_tok_s = Median(off),
                      .on_tok_s = Median(on),
                      .gain = gain.mean,
                      .low = gain.low,
                      .high = gain.high,
                      .drafts_a_step = drafted / std::max(steps, 1.0),
                      .accepted_a_step = accepted / std::max(steps, 1.0)};
}

Result<std::vector<SpeedFigures>> CompareAll(const base::OptionValues& values,
                                             const Prompts& prompts, int64_t drafts,
                                             const std::vector<int64_t>& batches) {
  TW_ASSIGN(const engine::EngineOptions options, engine::EngineOptions::From(values));
  const int64_t most = *std::max_element(batches.begin(), batches.end());
  TW_ASSIGN(const auto off, Open(options, 0, most));
  TW_ASSIGN(const auto on, Open(options, drafts, most));
  const int64_t pairs = values.Integer("pairs");
  std::vector<SpeedFigures> speeds;
  Progress progress("comparing", static_cast<int64_t>(batches.size()));
  for (const int64_t batch : batches) {
    const LoadOptions load{
        .requests = std::max(kLeastRequests, 4 * batch), .concurrency = batch, .ignore_eos = false};
    TW_ASSIGN(speeds.emplace_back(),
              Compare({off.get(), on.get()}, load,
                      LoadOf(prompts, load.requests, values.Integer("tokens")), pairs));
    progress.Advance(fmt::format("{} sequences", batch));
  }
  return speeds;
}

Result<Prompts> ReadPrompts(const base::OptionValues& values, const Session& session) {
  if (values.Has("prompts")) return ReadDocumentFile(values.Text("prompts"), session);
  return base::InvalidArgument(
      "--prompts is missing: a JSON array, or JSONL, of objects with \"ids\" or \"text\"");
}

}  // namespace

Status BenchSpecCommand(const base::OptionValues& values) {
  if (values.Flag("rules")) return BenchSpecRulesCommand(values);
  TW_ASSIGN(const std::vector<int64_t> batches,
            ParseCounts(values.Text("batch"), "batch", kMostSpecBatch));
  SpecFigures figures;
  Prompts prompts;
  int64_t drafts = values.Integer("nextn");
  {
    const int64_t most = *std::max_element(batches.begin(), batches.end());
    TW_ASSIGN(Session session, OpenDrafter(values, most));
    if (!session.model->has_draft())
      return base::Unsupported("this checkpoint has no draft module");
    if (drafts == 0) drafts = session.config().dspark_block_size;
    TW_ASSIGN(prompts, ReadPrompts(values, session));
    TW_ASSIGN(figures.costs,
              exec::MeasureCosts(session.model.get(), drafts, values.Flag("mtp-varlen")));
  }
  {
    TW_ASSIGN(SessionOptions options, SessionOptions::From(values));
    options.draft = true;
    TW_ASSIGN(Session session, OpenSession(options));
    TW_ASSIGN(figures.acceptance, Answer(values, prompts, &session));
  }
  TW_ASSIGN(figures.speeds, CompareAll(values, prompts, drafts, batches));
  if (values.Has("curves")) TW_TRY(WriteCurves(values.Text("curves"), figures));
  fmt::print("{}\n", values.Flag("json") ? ToJson(figures).dump(2) : ToTable(figures));
  return {};
}

std::vector<base::OptionRow> BenchSpecRows() {
  return {{.name = "prompts",
           .help = "spec: prompts to answer, JSONL or a JSON array of objects with \"ids\" or "
                   "\"text\"",
           .value_name = "FILE"},
          CountRow("pairs", "spec: runs with and without drafts, in turns, for each batch", "5", 1,
                   1000),
          {.name = "rules",
           .kind = base::OptionKind::kFlag,
           .help = "spec: whole blocks, blocks that pay and lengths by confidence against none, on "
                   "random prompts and those of --prompts (at --temperature, too), answers held to "
                   "those without drafts"},
          {.name = "curves",
           .help = "spec: write CSV files and a gnuplot script into this folder",
           .value_name = "FOLDER"}};
}

}  // namespace thalweg::tools::bench
