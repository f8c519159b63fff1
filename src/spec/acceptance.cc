#include "spec/acceptance.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "sampling/elementary.h"
#include "spec/weight_race.h"

namespace thalweg::spec {
namespace {

using sampling::Entry;
using sampling::NoisePurpose;

// Purposes are the low byte of their word, slots stand above.
NoisePurpose DraftPurpose(int slot) {
  const auto draft = static_cast<uint32_t>(NoisePurpose::kDraft);
  return static_cast<NoisePurpose>(draft | static_cast<uint32_t>(slot) << 8);
}

bool Greedy(const step::SamplingParams& p) {
  return p.temperature < sampling::kGreedyBelow || p.top_k == 1;
}

double LogOfCoin(uint64_t seed, int64_t position) {
  const uint32_t word = sampling::NoiseWords(seed, position, NoisePurpose::kCoin, 0)[0];
  return sampling::Log(base::OpenUnit(word));
}

// The token of a row whose draft came from a law of its own.
class Rejection {
 public:
  Rejection(const VerifyBlock& block, size_t row, const step::SamplingParams& params,
            LawBuffers* buffers)
      : block_(block), row_(row), params_(params), b_(*buffers) {}

  int32_t Draw(std::span<const float> logits, Entry best) const {
    const Law target(logits, best, params_, &b_.choose);
    const int32_t draft = block_.drafts[row_];
    if (block_.draft_logits.empty() || row_ < certain()) {
      if (Passes(target.Log(draft), 0)) return draft;
      ResidualOf(target, draft, &b_.residual);
      return DrawOther();
    }
    const Law proposal = DraftLaw(logits.size());
    if (Passes(target.Log(draft), proposal.Log(draft))) return draft;
    ResidualOf(target, proposal, &b_.residual);
    return DrawOther();
  }

 private:
  int64_t position() const { return block_.position + static_cast<int64_t>(row_); }
  size_t certain() const { return static_cast<size_t>(block_.certain); }

  int32_t DrawOther() const {
    return DrawByWeight(b_.residual, params_.seed, position(), NoisePurpose::kResidual);
  }

  Law DraftLaw(size_t vocab) const {
    const std::span<const float> logits =
        block_.draft_logits.subspan((row_ - certain()) * vocab, vocab);
    return Law(logits, sampling::Summarise(logits).best, params_, &b_.choose);
  }

  bool Passes(double target, double draft) const {
    return target > LogOfCoin(params_.seed, position()) + draft;
  }

  const VerifyBlock& block_;
  size_t row_;
  const step::SamplingParams& params_;
  LawBuffers& b_;
};

// One row: the token that comes out behind it.
Result<sampling::RowSample> SampleOf(const VerifyBlock& block, size_t row, bool drafted,
                                     const sampling::SequenceState& state,
                                     sampling::Scratch* scratch, LawBuffers* buffers) {
  const auto vocab = static_cast<size_t>(state.vocab());
  sampling::Row r = {.logits = block.logits.subspan(row * vocab, vocab),
                     .state = &state,
                     .position = block.position + static_cast<int64_t>(row),
                     .processor = block.processor};
  if (!block.masks.empty()) {
    TW_CHECK_LT(row, block.masks.size());
    r.mask = block.masks[row];
  }
  if (!drafted || block.rule == Rule::kTarget) return sampling::SampleRow(r, scratch);
  const Rejection rejection(block, row, state.params(), buffers);
  const sampling::Chooser chooser = [&](std::span<const float> logits, Entry best) {
    return rejection.Draw(logits, best);
  };
  r.chooser = &chooser;
  return sampling::SampleRow(r, scratch);
}

void CheckBlock(const VerifyBlock& block, size_t vocab) {
  TW_CHECK_GE(block.rows, 1);
  const auto rows = static_cast<size_t>(block.rows);
  TW_CHECK_EQ(block.logits.size(), rows * vocab);
  TW_CHECK_LE(block.drafts.size(), rows);
  TW_CHECK(block.certain >= 0 && static_cast<size_t>(block.certain) <= block.drafts.size());
  const size_t drawn = block.drafts.size() - static_cast<size_t>(block.certain);
  TW_CHECK(block.draft_logits.empty() || block.draft_logits.size() == drawn * vocab);
}

}  // namespace

Rule RuleFor(const step::SamplingParams& params, bool seeded) {
  return seeded || Greedy(params) ? Rule::kTarget : Rule::kRejection;
}

Result<int32_t> DrawDraft(std::span<const float> logits, const step::SamplingParams& params,
                          int64_t position, int slot, Rule rule, LawBuffers* buffers) {
  const sampling::RowSummary row = sampling::Summarise(logits);
  if (row.nan || !std::isfinite(row.best.logit))
    return base::Internal("the logits of the draft module are not finite");
  const NoisePurpose noise = rule == Rule::kTarget ? NoisePurpose::kTarget : DraftPurpose(slot);
  return sampling::Choose(logits, row.best, params, position, &buffers->choose, noise);
}

int64_t UsableDrafts(std::span<const int32_t> drafts, int64_t vocab) {
  const auto bad = [&](int32_t t) { return t < 0 || t >= vocab; };
  return std::find_if(drafts.begin(), drafts.end(), bad) - drafts.begin();
}

Accepted Accept(const VerifyBlock& block, sampling::SequenceState* state,
                sampling::Scratch* scratch, LawBuffers* buffers) {
  CheckBlock(block, static_cast<size_t>(state->vocab()));
  const auto usable = static_cast<size_t>(UsableDrafts(block.drafts, state->vocab()));
  Accepted out = {.verified = static_cast<int64_t>(usable)};
  for (size_t row = 0; row < static_cast<size_t>(block.rows); ++row) {
    const bool drafted = row < usable;
    auto sample = SampleOf(block, row, drafted, *state, scratch, buffers);
    if (!sample.ok()) {
      out.status = sample.status();
      return out;
    }
    const sampling::RowSample& made = out.samples.emplace_back(std::move(*sample));
    if (made.fulfilled) return out;
    state->Append(made.token);
    const bool accepted = drafted && made.token == block.drafts[row];
    out.drafts += accepted ? 1 : 0;
    if (accepted && made.end != step::TokenEnd::kNone) out.verified = out.drafts;
    if (!accepted || made.end != step::TokenEnd::kNone) return out;
  }
  return out;
}

}  // namespace thalweg::spec
