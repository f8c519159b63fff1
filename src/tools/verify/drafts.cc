// Draft blocks behind stored prefixes (spec/model.md 2.8).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/verify/context.h"
#include "tools/verify/figures.h"
#include "tools/verify/logit_tally.h"

namespace thalweg::tools {
namespace {

using tensor::DType;

// Taps are end-to-end figures without a limit in the manifest. What logits show of noise stands in
// for it: 1.3 (free) of a logit's standard deviation of 3 in the long prompts.
constexpr double kTapsSameRounding = 0.25;
constexpr double kTapsFree = 0.4;

struct StoredDraft {
  std::string base;                 // "dspark/rand17/0/"
  int64_t index = 0;                // among the drafts of its prompt
  int64_t position = 0;             // p: the target has processed 0..p
  int32_t token = 0;                // y, at p + 1
  std::span<const int32_t> drafts;  // [block]
  tensor::View confidence;          // f32 [block]
};

// Tokens of a prompt and of what follows it, by position: the stored continuation, else the chain
// of the drafts' first tokens.
class Story {
 public:
  static Result<Story> Of(const GoldenFolder& golden, const std::string& prompt,
                          std::span<const StoredDraft> drafts) {
    Story story;
    TW_ASSIGN(const auto ids, PromptIds(golden, prompt));
    TW_ASSIGN(const auto tokens, Continuation(golden, prompt));
    story.ids_.assign(ids.begin(), ids.end());
    story.ids_.insert(story.ids_.end(), tokens.begin(), tokens.end());
    for (const StoredDraft& draft : drafts) {
      if (tokens.empty() && draft.position + 1 == static_cast<int64_t>(story.ids_.size()))
        story.ids_.push_back(draft.token);
    }
    return story;
  }

  // Tokens 0..position.
  Result<std::span<const int32_t>> Until(const StoredDraft& draft) const {
    if (draft.position < 0 || draft.position >= static_cast<int64_t>(ids_.size()))
      return base::InvalidArgument(fmt::format("{}pos: no stored tokens lead up to position {}",
                                               draft.base, draft.position));
    return std::span<const int32_t>(ids_).first(static_cast<size_t>(draft.position + 1));
  }

 private:
  std::vector<int32_t> ids_;
};

// The taps of the last row.
class TapProbe : public model::Probe {
 public:
  bool Wants(int, std::string_view point) const override { return point == model::point::kTaps; }
  void See(int, std::string_view, const tensor::MutableView& view) override {
    taps_ = LastRows(view, 1);
  }
  const Rows& taps() const { return taps_; }

 private:
  Rows taps_;
};

Result<StoredDraft> LoadDraft(const VerifyContext& context, const std::string& prompt,
                              const std::string& index, int64_t number) {
  const int64_t block = context.config().dspark_block_size;
  StoredDraft draft{.base = fmt::format("dspark/{}/{}/", prompt, index),
                    .index = number,
                    .drafts = {},
                    .confidence = {}};
  TW_ASSIGN(const auto pos, context.golden.Get(draft.base + "pos", DType::kI32, {2}));
  TW_ASSIGN(const auto tokens, context.golden.Get(draft.base + "tokens", DType::kI32, {block + 1}));
  TW_ASSIGN(draft.confidence, context.golden.Get(draft.base + "confidence", DType::kF32, {block}));
  draft.position = pos.as<int32_t>()[0];
  draft.token = pos.as<int32_t>()[1];
  draft.drafts = {tokens.as<int32_t>() + 1, static_cast<size_t>(block)};
  if (tokens.as<int32_t>()[0] != draft.token)
    return base::InvalidArgument(
        fmt::format("{}tokens does not begin with the token of pos", draft.base));
  return draft;
}

// Slots up to the first draft that differs, that one included: later ones follow another token.
int64_t ComparableSlots(const StoredDraft& draft, const model::DraftOutput& ours) {
  const auto [stored, got] =
      std::mismatch(draft.drafts.begin(), draft.drafts.end(), ours.tokens.begin());
  const int64_t equal = stored - draft.drafts.begin();
  return std::min(equal + 1, static_cast<int64_t>(draft.drafts.size()));
}

CheckId DraftId(const StoredDraft& draft, std::string_view part) {
  return {
      .stage = Stage::kDrafts, .part = std::string(part), .name = draft.base + std::string(part)};
}

// Without stored logits the manifest knows the smallest margin of the block.
double BlockMargin(const VerifyContext& context, const std::string& prompt,
                   const StoredDraft& draft) {
  const base::Json* list = context.golden.Find(fmt::format("dspark/{}", prompt));
  const auto at = static_cast<size_t>(draft.index);
  if (list == nullptr || !list->is_array() || at >= list->size()) return 0;
  const base::Json& described = (*list)[at];
  if (!described.is_object() || !described.contains("min_margin")) return 0;
  return described["min_margin"].is_number() ? described["min_margin"].get<double>() : 0;
}

void ReportTokens(VerifyContext& context, const StoredDraft& draft, double margin,
                  const model::DraftOutput& ours) {
  const bool equal = std::equal(draft.drafts.begin(), draft.drafts.end(), ours.tokens.begin());
  const int64_t slots = ComparableSlots(draft, ours);
  context.report.AtMost(
      DraftId(draft, "tokens"), equal ? 0 : margin, context.limits.draft_margin,
      fmt::format("smallest margin of the block where a token differs; first {} comparable",
                  slots));
}

void ReportConfidence(VerifyContext& context, const StoredDraft& draft,
                      const model::DraftOutput& ours) {
  double worst = 0;
  for (int64_t i = 0; i < ComparableSlots(draft, ours); ++i) {
    const double off =
        double{ours.confidence[static_cast<size_t>(i)]} - draft.confidence.as<float>()[i];
    worst = Worse(worst, std::fabs(off));
  }
  context.report.AtMost(DraftId(draft, "confidence"), worst, context.limits.draft_confidence);
}

Status ReportLogits(VerifyContext& context, const StoredDraft& draft,
                    const model::DraftOutput& ours) {
  const std::string entry = draft.base + "logits";
  if (!context.golden.Has(entry)) return {};
  const int64_t vocab = context.config().vocab_size;
  const int64_t block = context.config().dspark_block_size;
  TW_ASSIGN(const tensor::View view, context.golden.Get(entry, DType::kF32, {block, vocab}));
  const std::span<const float> stored(view.as<float>(), static_cast<size_t>(block * vocab));
  LogitTally tally;
  for (int64_t i = 0; i < ComparableSlots(draft, ours); ++i) {
    const auto want = LogitRow(stored, vocab, i);
    const auto got = LogitRow(ours.logits, vocab, i);
    tally.AddLogits(got, want);
    tally.AddChoice(got, draft.drafts[static_cast<size_t>(i)], Margin(want));
  }
  ReportPositions(tally, Stage::kDrafts, draft.base + "logits", context.limits,
                  context.limits.draft_margin, &context.report);
  return {};
}

Status ReportTaps(VerifyContext& context, const StoredDraft& draft, const Rows& taps) {
  const std::string entry = draft.base + "taps";
  if (!context.golden.Has(entry)) return {};
  TW_ASSIGN(const tensor::View view, context.golden.Get(entry, DType::kBF16, {taps.width}));
  Rows want = LastRows(view, taps.width);
  want.rows = 1;
  want.width = taps.width;
  context.report.AtMost(DraftId(draft, "taps"), CompareRows(taps, want).relative_rms,
                        context.limits.same_rounding ? kTapsSameRounding : kTapsFree);
  return {};
}

// A draft leaves the caches as they are, so the sequence goes on from one draft to the next.
Status VerifyDraft(VerifyContext& context, const std::string& prompt,
                   std::span<const int32_t> new_tokens, const StoredDraft& draft,
                   VerifySequence& sequence) {
  TapProbe probe;
  TW_TRY(sequence.Append(new_tokens, model::LogitRows::kNone, &probe).status());
  const model::DraftRequest request{.sequence = sequence.id(), .token = draft.token};
  model::DraftOutput ours;
  TW_TRY(context.model.Draft({&request, 1}, &ours));
  TW_TRY(ReportTaps(context, draft, probe.taps()));
  ReportConfidence(context, draft, ours);
  ReportTokens(context, draft, BlockMargin(context, prompt, draft), ours);
  return ReportLogits(context, draft, ours);
}

Status VerifyPrompt(VerifyContext& context, const std::string& prompt,
                    std::span<const StoredDraft> drafts) {
  TW_ASSIGN(const Story story, Story::Of(context.golden, prompt, drafts));
  VerifySequence sequence(context.model);
  size_t done = 0;
  for (const StoredDraft& draft : drafts) {
    TW_ASSIGN(const auto ids, story.Until(draft));
    if (ids.size() <= done)
      return base::InvalidArgument(fmt::format("{}pos: drafts are not in order", draft.base));
    TW_TRY(VerifyDraft(context, prompt, ids.subspan(done), draft, sequence));
    done = ids.size();
  }
  return {};
}

}  // namespace

Status VerifyDrafts(VerifyContext& context) {
  const auto prompts = context.golden.ChildrenOf("dspark/");
  if (!prompts.empty() && !context.model.has_draft())
    return base::InvalidArgument("dspark entries for a checkpoint without a draft module");
  for (const std::string& prompt : prompts) {
    std::vector<StoredDraft> drafts;
    for (const std::string& index : context.golden.ChildrenOf(fmt::format("dspark/{}/", prompt))) {
      TW_ASSIGN(StoredDraft draft,
                LoadDraft(context, prompt, index, static_cast<int64_t>(drafts.size())));
      drafts.push_back(std::move(draft));
    }
    TW_TRY(VerifyPrompt(context, prompt, drafts));
  }
  return {};
}

}  // namespace thalweg::tools
