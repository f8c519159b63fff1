// `thalweg shift`: what bounded replay and bounded prefix hits change.
#include <fmt/format.h>

#include <cmath>

#include "base/json.h"
#include "tools/command.h"
#include "tools/documents.h"
#include "tools/option_rows.h"
#include "tools/progress.h"
#include "tools/session.h"
#include "tools/shift.h"

namespace thalweg::tools {
namespace {

// Documents joined, then cut into pieces of one prompt with what follows it.
std::vector<std::vector<int32_t>> CutPrompts(const std::vector<Document>& documents,
                                             const ShiftOptions& options) {
  std::vector<int32_t> all;
  for (const Document& d : documents) all.insert(all.end(), d.ids.begin(), d.ids.end());
  const auto length = static_cast<size_t>(options.prompt_tokens + options.follow_tokens);
  std::vector<std::vector<int32_t>> prompts;
  for (size_t at = 0; at + length <= all.size(); at += length) {
    const auto first = all.begin() + static_cast<int64_t>(at);
    prompts.emplace_back(first, first + static_cast<int64_t>(length));
  }
  return prompts;
}

struct Measured {
  ShiftVariant variant;
  ShiftFigures figures;
};

const std::vector<float>& Reference(const std::vector<Measured>& measured,
                                    const std::vector<std::vector<float>>& logits,
                                    const std::string& name) {
  size_t i = 0;
  while (measured[i].variant.name != name) ++i;
  return logits[i];
}

Status MeasurePrompt(model::Model& model, const std::vector<int32_t>& ids,
                     const ShiftOptions& options, std::vector<Measured>* measured) {
  std::vector<std::vector<float>> logits;
  for (const Measured& m : *measured) {
    TW_ASSIGN(logits.emplace_back(), LogitsBehindPrompt(model, ids, m.variant, options));
  }
  const auto vocab = static_cast<size_t>(model.config().vocab_size);
  for (size_t v = 0; v < measured->size(); ++v) {
    Measured& m = (*measured)[v];
    const std::vector<float>& reference = Reference(*measured, logits, m.variant.against);
    for (size_t i = 0; i < static_cast<size_t>(options.follow_tokens); ++i) {
      m.figures.Add(std::span(reference).subspan(i * vocab, vocab),
                    std::span(logits[v]).subspan(i * vocab, vocab),
                    ids[static_cast<size_t>(options.prompt_tokens) + i]);
    }
  }
  return {};
}

void PrintTable(const std::vector<Measured>& measured) {
  fmt::print("{:<22} {:<8} {:>7} {:>10} {:>9} {:>9} {:>10}\n", "variant", "against", "tokens",
             "mean KL", "max KL", "same top", "perplexity");
  for (const Measured& m : measured) {
    const auto n = static_cast<double>(m.figures.tokens);
    fmt::print("{:<22} {:<8} {:>7} {:>10.6f} {:>9.4f} {:>8.2f}% {:>10.4f}\n", m.variant.name,
               m.variant.against, m.figures.tokens, m.figures.kl_sum / n, m.figures.kl_max,
               100.0 * static_cast<double>(m.figures.same_top) / n, std::exp(m.figures.nll / n));
  }
}

void PrintJson(const std::vector<Measured>& measured) {
  base::Json rows = base::Json::array();
  for (const Measured& m : measured) {
    const auto n = static_cast<double>(m.figures.tokens);
    rows.push_back({{"variant", m.variant.name},
                    {"against", m.variant.against},
                    {"tokens", m.figures.tokens},
                    {"mean_kl", m.figures.kl_sum / n},
                    {"max_kl", m.figures.kl_max},
                    {"same_top", static_cast<double>(m.figures.same_top) / n},
                    {"perplexity", std::exp(m.figures.nll / n)}});
  }
  fmt::print("{}\n", rows.dump());
}

Result<Session> OpenForShift(const OptionValues& values, const ShiftOptions& options) {
  TW_ASSIGN(SessionOptions session, SessionOptions::From(values));
  session.max_sequences = 2;
  session.max_tokens = 2 * (options.prompt_tokens + options.follow_tokens + 64);
  session.blocks_from_outside = true;
  return OpenSession(session);
}

Result<int> Shift(const OptionValues& values) {
  const ShiftOptions options{.prompt_tokens = values.Integer("prompt-tokens"),
                             .follow_tokens = values.Integer("follow-tokens"),
                             .own_tokens = values.Integer("own-tokens")};
  TW_ASSIGN(Session session, OpenForShift(values, options));
  TW_ASSIGN(const model::Replay compact,
            model::Replay::Make(model::ReplayMode::kCompact, values.OptionalInteger("keep-tokens"),
                                session.config()));
  if (options.prompt_tokens <= compact.keep_tokens || options.own_tokens >= options.prompt_tokens) {
    return base::InvalidArgument(fmt::format(
        "prompts of {} tokens: more than keep-tokens ({}) and own-tokens ({}) are needed",
        options.prompt_tokens, compact.keep_tokens, options.own_tokens));
  }
  TW_ASSIGN(const std::vector<Document> documents, ReadDocuments(values, session));
  const auto prompts = CutPrompts(documents, options);
  if (prompts.empty())
    return base::InvalidArgument("the documents together are shorter than one prompt");
  std::vector<Measured> measured;
  for (const ShiftVariant& variant : ShiftVariants(compact)) measured.push_back({variant, {}});
  Progress progress("measuring", static_cast<int64_t>(prompts.size()));
  for (const std::vector<int32_t>& ids : prompts) {
    TW_TRY(MeasurePrompt(*session.model, ids, options, &measured));
    progress.Advance("");
  }
  if (values.Flag("json")) {
    PrintJson(measured);
  } else {
    PrintTable(measured);
  }
  return kExitOk;
}

std::vector<OptionRow> Rows() {
  std::vector<OptionRow> rows = ModelOptionRows();
  for (OptionRow& row : DocumentOptionRows()) rows.push_back(std::move(row));
  for (OptionRow& row : ReplayOptionRows("compact")) {
    if (row.name == "keep-tokens") rows.push_back(std::move(row));
  }
  rows.push_back(CountRow("prompt-tokens", "tokens of a prompt; documents are joined and cut",
                          "1024", 1, 1 << 20));
  rows.push_back(
      CountRow("follow-tokens", "tokens behind it whose distributions are compared", "32", 1, 256));
  rows.push_back(
      CountRow("own-tokens", "least tokens of a prompt behind a prefix hit", "20", 1, 1 << 20));
  rows.push_back({.name = "json", .kind = OptionKind::kFlag, .help = "print JSON"});
  return rows;
}

}  // namespace

Command ShiftCommand() {
  return {.name = "shift",
          .about = "How far bounded replay and bounded prefix hits move the model's distribution",
          .options = Rows(),
          .positionals = {},
          .run = Shift};
}

}  // namespace thalweg::tools
