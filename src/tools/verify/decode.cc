// Teacher-forced decode: the stored continuation token by token, judged like prompt positions, and
// equal bit for bit to one forward over everything.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tools/verify/context.h"
#include "tools/verify/figures.h"
#include "tools/verify/logit_tally.h"

namespace thalweg::tools {
namespace {

using tensor::DType;

struct Continued {
  std::string name;
  std::span<const int32_t> prompt;
  std::span<const int32_t> tokens;  // token s is what the logits of step s choose
};

// [steps, vocab]: the prompt at once, then every token alone.
Result<std::vector<float>> DecodeLogits(VerifyContext& context, const Continued& c) {
  VerifySequence sequence(context.model);
  TW_ASSIGN(std::vector<float> logits, sequence.Append(c.prompt, model::LogitRows::kLast));
  for (size_t s = 0; s + 1 < c.tokens.size(); ++s) {
    TW_ASSIGN(const auto row, sequence.Append(c.tokens.subspan(s, 1), model::LogitRows::kLast));
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

// The same steps from one forward over prompt and continuation.
Result<std::vector<float>> PrefillLogits(VerifyContext& context, const Continued& c) {
  std::vector<int32_t> ids(c.prompt.begin(), c.prompt.end());
  ids.insert(ids.end(), c.tokens.begin(), c.tokens.end() - 1);
  VerifySequence sequence(context.model);
  TW_ASSIGN(std::vector<float> logits, sequence.Append(ids, model::LogitRows::kAll));
  const auto skip = static_cast<int64_t>(c.prompt.size() - 1) * context.config().vocab_size;
  logits.erase(logits.begin(), logits.begin() + skip);
  return logits;
}

Status AddStored(const VerifyContext& context, const std::string& entry, const Continued& c,
                 std::span<const float> logits, LogitTally* tally) {
  const int64_t vocab = context.config().vocab_size;
  TW_ASSIGN(const tensor::View view,
            context.golden.Get(entry, DType::kF32, {kAnyDimension, vocab}));
  TW_ASSIGN(const auto steps, context.golden.Steps(entry, static_cast<int64_t>(c.tokens.size())));
  const std::span<const float> stored(view.as<float>(), static_cast<size_t>(view.shape.elements()));
  for (size_t i = 0; i < steps.size(); ++i) {
    tally->AddLogits(LogitRow(logits, vocab, steps[i]),
                     LogitRow(stored, vocab, static_cast<int64_t>(i)));
  }
  return {};
}

Status AddChoices(const VerifyContext& context, const Continued& c, std::span<const float> logits,
                  LogitTally* tally) {
  const auto steps = static_cast<int64_t>(c.tokens.size());
  TW_ASSIGN(const tensor::View margin,
            context.golden.Get(fmt::format("greedy/{}/margin", c.name), DType::kF32, {steps}));
  for (int64_t s = 0; s < steps; ++s) {
    tally->AddChoice(LogitRow(logits, context.config().vocab_size, s),
                     c.tokens[static_cast<size_t>(s)], margin.as<float>()[s]);
  }
  return {};
}

// Stored logits of decode steps, or of the same steps from a prefill, whole or a subset of steps.
Status AddEntries(const VerifyContext& context, const Continued& c, std::string_view kind,
                  std::span<const float> logits, LogitTally* tally) {
  const std::string prefix = fmt::format("greedy/{}/{}_logits", c.name, kind);
  for (const std::string& entry : context.golden.EntriesBelow(prefix))
    TW_TRY(AddStored(context, entry, c, logits, tally));
  return {};
}

void ReportBitwise(VerifyContext& context, const Continued& c, std::span<const float> decode,
                   std::span<const float> prefill) {
  int64_t differing = 0;
  for (size_t i = 0; i < decode.size(); ++i)
    differing += std::memcmp(&decode[i], &prefill[i], sizeof(float)) != 0;
  context.report.AtMost({.stage = Stage::kDecode,
                         .part = "equal_to_prefill",
                         .name = fmt::format("greedy/{}/equal_to_prefill", c.name)},
                        static_cast<double>(differing), 0, "logits that differ in any bit");
}

Status VerifyContinuation(VerifyContext& context, const Continued& c, LogitTally* all) {
  TW_ASSIGN(const auto decode, DecodeLogits(context, c));
  TW_ASSIGN(const auto prefill, PrefillLogits(context, c));
  LogitTally tally;
  TW_TRY(AddEntries(context, c, "decode", decode, &tally));
  TW_TRY(AddEntries(context, c, "reprefill", prefill, &tally));
  TW_TRY(AddChoices(context, c, decode, &tally));
  ReportPositions(tally, Stage::kDecode, fmt::format("greedy/{}", c.name), context.limits,
                  context.limits.decode_margin, &context.report);
  ReportBitwise(context, c, decode, prefill);
  all->Add(tally);
  return {};
}

}  // namespace

Status VerifyDecode(VerifyContext& context) {
  LogitTally all;
  for (const std::string& name : context.golden.ChildrenOf("greedy/")) {
    Continued c{.name = name, .prompt = {}, .tokens = {}};
    TW_ASSIGN(c.prompt, PromptIds(context.golden, name));
    TW_ASSIGN(c.tokens, context.golden.Integers(fmt::format("greedy/{}/tokens", name)));
    TW_TRY(VerifyContinuation(context, c, &all));
  }
  ReportTogether(all, Stage::kDecode, "greedy", context.limits, &context.report);
  return {};
}

}  // namespace thalweg::tools
