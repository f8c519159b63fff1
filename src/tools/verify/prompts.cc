// End to end: one forward over every prompt, judged by its distributions.
#include <fmt/format.h>

#include <algorithm>

#include "tools/verify/context.h"
#include "tools/verify/figures.h"
#include "tools/verify/logit_tally.h"
#include "tools/verify/long_prompt.h"

namespace thalweg::tools {
namespace {

using tensor::DType;

// The per-prompt limit of engines that round elsewhere, from the stored noise of the same kind of
// engine: 1.6 x its median + 0.1.
constexpr double kNoiseFactor = 1.6;
constexpr double kNoiseOffset = 0.1;
constexpr int64_t kFreeNoiseColumn = 1;
// With fewer stored positions the median is a single sample of a wide distribution; it counts in
// the median over all prompts only.
constexpr int64_t kMedianPositions = 3;

struct StoredPrompt {
  std::string name;
  std::span<const int32_t> ids;        // [T]
  std::span<const int32_t> positions;  // ascending not required, each in [0, T)
  tensor::View logits;                 // f32 [positions, vocab]
  tensor::View noise;                  // f32 [T, 2]
  tensor::View argmax;                 // i32 [T]
  tensor::View margin;                 // f32 [T]
};

Result<StoredPrompt> LoadPrompt(const VerifyContext& context, const std::string& name) {
  const GoldenFolder& golden = context.golden;
  const std::string base = fmt::format("prompt/{}/", name);
  StoredPrompt p{.name = name,
                 .ids = {},
                 .positions = {},
                 .logits = {},
                 .noise = {},
                 .argmax = {},
                 .margin = {}};
  TW_ASSIGN(p.ids, PromptIds(golden, name));
  TW_ASSIGN(p.positions, golden.Integers(base + "logit_positions"));
  const auto tokens = static_cast<int64_t>(p.ids.size());
  for (const int32_t position : p.positions) {
    if (position < 0 || position >= tokens)
      return base::InvalidArgument(
          fmt::format("{}logit_positions names position {}", base, position));
  }
  const auto rows = static_cast<int64_t>(p.positions.size());
  TW_ASSIGN(p.logits,
            golden.Get(base + "logits", DType::kF32, {rows, context.config().vocab_size}));
  TW_ASSIGN(p.noise, golden.Get(base + "noise", DType::kF32, {tokens, 2}));
  TW_ASSIGN(p.argmax, golden.Get(base + "argmax", DType::kI32, {tokens}));
  TW_ASSIGN(p.margin, golden.Get(base + "margin", DType::kF32, {tokens}));
  return p;
}

LogitTally TallyPrompt(const StoredPrompt& p, std::span<const float> logits, int64_t vocab) {
  LogitTally tally;
  const std::span<const float> stored(p.logits.as<float>(),
                                      static_cast<size_t>(p.logits.shape.elements()));
  for (size_t i = 0; i < p.positions.size(); ++i) {
    tally.AddLogits(LogitRow(logits, vocab, p.positions[i]),
                    LogitRow(stored, vocab, static_cast<int64_t>(i)));
  }
  for (size_t t = 0; t < p.ids.size(); ++t) {
    tally.AddChoice(LogitRow(logits, vocab, static_cast<int64_t>(t)), p.argmax.as<int32_t>()[t],
                    p.margin.as<float>()[t]);
  }
  return tally;
}

double NoiseMedian(const StoredPrompt& p) {
  std::vector<double> noise;
  for (int64_t t = 0; t < p.noise.shape[0]; ++t)
    noise.push_back(p.noise.as<float>()[t * 2 + kFreeNoiseColumn]);
  return Median(std::move(noise));
}

void ReportMedian(const StoredPrompt& p, const LogitTally& tally, VerifyContext& context) {
  if (context.limits.same_rounding) return;
  CheckId id{.stage = Stage::kPrompts,
             .part = "median_logit",
             .name = fmt::format("prompt/{}/median_logit", p.name)};
  if (tally.positions < kMedianPositions) {
    context.report.Skip(
        std::move(id),
        fmt::format("{} stored positions have no median worth the name", tally.positions));
    return;
  }
  context.report.AtMost(
      std::move(id), Median(tally.max_abs),
      context.limits.median_factor * (kNoiseFactor * NoiseMedian(p) + kNoiseOffset));
}

Result<LogitTally> VerifyPrompt(VerifyContext& context, const StoredPrompt& p,
                                model::Probe* probe) {
  VerifySequence sequence(context.model);
  TW_ASSIGN(const auto logits, sequence.Append(p.ids, model::LogitRows::kAll, probe));
  LogitTally tally = TallyPrompt(p, logits, context.config().vocab_size);
  ReportPositions(tally, Stage::kPrompts, fmt::format("prompt/{}", p.name), context.limits,
                  context.limits.argmax_margin, &context.report);
  ReportMedian(p, tally, context);
  return tally;
}

// The prompt that the manifest's long/... entries belong to.
Result<std::string> LongestPrompt(const GoldenFolder& golden) {
  std::string longest;
  size_t tokens = 0;
  for (const std::string& name : golden.ChildrenOf("prompt/")) {
    TW_ASSIGN(const auto ids, PromptIds(golden, name));
    if (ids.size() > tokens) longest = name;
    tokens = std::max(tokens, ids.size());
  }
  return longest;
}

void ReportShortPrompts(const LogitTally& short_prompts, VerifyContext& context) {
  const auto& limit = context.limits.short_prompts;
  if (!limit || short_prompts.positions == 0) return;
  const auto close = std::count_if(short_prompts.max_abs.begin(), short_prompts.max_abs.end(),
                                   [&](double off) { return off <= limit->within; });
  context.report.AtLeast(
      {.stage = Stage::kPrompts, .part = "within", .name = "prompts/within"},
      static_cast<double>(close) / static_cast<double>(short_prompts.positions), limit->fraction,
      fmt::format("positions with every logit within {}, prompts up to {} tokens", limit->within,
                  limit->tokens));
}

}  // namespace

Status VerifyPrompts(VerifyContext& context) {
  LogitTally all;
  LogitTally short_prompts;
  LongProbe long_probe(context.golden);
  TW_ASSIGN(const std::string longest, LongestPrompt(context.golden));
  for (const std::string& name : context.golden.ChildrenOf("prompt/")) {
    TW_ASSIGN(const StoredPrompt prompt, LoadPrompt(context, name));
    TW_ASSIGN(const LogitTally tally,
              VerifyPrompt(context, prompt, name == longest ? &long_probe : nullptr));
    all.Add(tally);
    const auto& limit = context.limits.short_prompts;
    if (limit && static_cast<int64_t>(prompt.ids.size()) <= limit->tokens) short_prompts.Add(tally);
  }
  TW_TRY(long_probe.Report(context));
  ReportTogether(all, Stage::kPrompts, "prompts", context.limits, &context.report);
  ReportShortPrompts(short_prompts, context);
  if (!context.limits.median_logit) return {};
  context.report.AtMost(
      {.stage = Stage::kPrompts, .part = "median_logit", .name = "prompts/median_logit"},
      Median(all.max_abs), *context.limits.median_logit);
  return {};
}

}  // namespace thalweg::tools
