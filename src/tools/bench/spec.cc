#include "tools/bench/spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/engine.h"
#include "exec/draft_costs.h"
#include "tools/bench/kernel.h"
#include "tools/bench/load.h"
#include "tools/bench/spec_pairs.h"
#include "tools/bench/spec_rules.h"
#include "tools/documents.h"
#include "tools/draft_replay.h"
#include "tools/option_rows.h"
#include "tools/progress.h"
#include "tools/session.h"

namespace thalweg::tools::bench {
namespace {

constexpr int64_t kMostSpecBatch = 4096;
constexpr int64_t kRandomPrompts = 64;

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

Result<std::vector<SpeedFigures>> CompareAll(const base::OptionValues& values,
                                             const Prompts& prompts, int64_t drafts,
                                             const std::vector<int64_t>& batches) {
  TW_ASSIGN(const engine::EngineOptions options, engine::EngineOptions::From(values));
  const int64_t most = *std::max_element(batches.begin(), batches.end());
  TW_ASSIGN(const auto off, Open(options, 0, most));
  TW_ASSIGN(const auto on, Open(options, drafts, most));
  std::vector<std::vector<int32_t>> ids;
  for (const Document& prompt : prompts) ids.push_back(prompt.ids);
  return ComparePairs(*off, *on, ids,
                      {.batches = batches,
                       .pairs = values.Integer("pairs"),
                       .half_seconds = values.Real("half-seconds"),
                       .tokens = values.Integer("tokens"),
                       .ignore_ends = values.Flag("random")});
}

// Ids without sense, for as many sequences as any batch has.
Result<Prompts> RandomPrompts(const base::OptionValues& values, int64_t most, int64_t vocab) {
  TW_ASSIGN(LoadOptions load, LoadOptions::From(values, 1));
  load.requests = std::max(kRandomPrompts, 2 * most);
  TW_ASSIGN(std::vector<LoadRequest> made, MakeLoad(load, vocab, {}));
  Prompts prompts;
  for (LoadRequest& r : made) prompts.push_back({.ids = std::move(r.prompt)});
  return prompts;
}

Result<Prompts> ReadPrompts(const base::OptionValues& values, int64_t most,
                            const Session& session) {
  if (values.Flag("random")) return RandomPrompts(values, most, session.config().vocab_size);
  if (values.Has("prompts")) return ReadDocumentFile(values.Text("prompts"), session);
  return base::InvalidArgument(
      "--prompts is missing, or --random: a JSON array, or JSONL, of objects with \"ids\" or "
      "\"text\"");
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
    TW_ASSIGN(prompts, ReadPrompts(values, most, session));
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
          {.name = "random",
           .kind = base::OptionKind::kFlag,
           .help = "spec: prompts of random ids (--prompt-tokens) instead of --prompts, answers of "
                   "full length"},
          CountRow("pairs",
                   "spec: for each batch, runs without and with drafts in turns, two of each (with "
                   "--rules: of all rules, one of each)",
                   "5", 1, 1000),
          {.name = "half-seconds",
           .kind = base::OptionKind::kReal,
           .help = "spec: how long one of those runs takes, about",
           .fallback = "1",
           .least = 0.01,
           .most = 600},
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
