#include "exec/speculation.h"

#include "base/check.h"

namespace thalweg::exec {

Speculation::Speculation(model::Model* model)
    : model_(model), slots_(static_cast<size_t>(model->options().max_sequences)) {}

void Speculation::Begin(int32_t slot, bool seeded) {
  slots_[static_cast<size_t>(slot)] = {.seeded = seeded, .gate = {}};
}

// Errors of a draw are logits that are not finite: the first token stands in, and the target, whose
// draft this is, says no.
int32_t Speculation::Choose(const DraftCandidate& candidate, const Drafted& drafted,
                            std::span<const float> logits, int slot) {
  const auto token = spec::DrawDraft(logits, candidate.state->params(), drafted.position + slot,
                                     slot, drafted.rule, &buffers_);
  return token.ok() ? *token : 0;
}

Status Speculation::Draft(std::span<const DraftCandidate> candidates) {
  if (drafted_.size() < candidates.size()) drafted_.resize(candidates.size());
  requests_.clear();
  requested_.clear();
  for (size_t i = 0; i < candidates.size(); ++i) {
    const DraftCandidate& c = candidates[i];
    Slot& slot = slots_[static_cast<size_t>(c.slot)];
    Drafted& d = drafted_[i];
    d.slot = c.slot;
    d.rule = spec::RuleFor(c.state->params(), slot.seeded);
    d.position = static_cast<int64_t>(c.state->tokens().size());
    d.block.assign(1, c.state->tokens().back());
    d.logits = {};
    if (!slot.gate.Step()) continue;
    requests_.push_back({.sequence = c.id,
                         .token = d.block.front(),
                         .choose = [this, &c, &d](int at, std::span<const float> logits) {
                           return Choose(c, d, logits, at);
                         }});
    requested_.push_back(i);
  }
  if (requests_.empty()) return {};
  TW_TRY(model_->Draft(requests_, &output_));
  const auto block = static_cast<size_t>(model_->config().dspark_block_size);
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  for (size_t r = 0; r < requested_.size(); ++r) {
    const auto count = std::min(block, static_cast<size_t>(candidates[requested_[r]].most));
    Drafted& d = drafted_[requested_[r]];
    const auto tokens = std::span(output_.tokens).subspan(r * block, count);
    d.block.insert(d.block.end(), tokens.begin(), tokens.end());
    d.logits = std::span(output_.logits).subspan(r * block * vocab, count * vocab);
  }
  return {};
}

std::span<const int32_t> Speculation::Block(size_t candidate) const {
  return drafted_[candidate].block;
}

void Speculation::JudgeOne(DraftVerdict* verdict, sampling::Scratch* scratch,
                           spec::LawBuffers* buffers) const {
  const Drafted& d = drafted_[verdict->candidate];
  const spec::VerifyBlock block = {
      .logits = verdict->logits,
      .rows = static_cast<int64_t>(d.block.size()),
      .drafts = std::span(d.block).subspan(1),
      .draft_logits = d.rule == spec::Rule::kRejection ? d.logits : std::span<const float>(),
      .processor = verdict->processor,
      .position = d.position,
      .rule = d.rule};
  verdict->accepted = spec::Accept(block, verdict->state, scratch, buffers);
}

void Speculation::Judge(std::span<DraftVerdict> verdicts, sampling::ScratchPool* scratch) {
  const auto judge = [&](int64_t begin, int64_t end, bool processors) {
    auto own = scratch->Take();
    spec::LawBuffers buffers;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if ((verdicts[i].processor != nullptr) == processors)
        JudgeOne(&verdicts[i], own.get(), &buffers);
    }
    scratch->Give(std::move(own));
  };
  const auto count = static_cast<int64_t>(verdicts.size());
  model_->options().team->ParallelFor(
      count, 1, [&](int64_t begin, int64_t end) { judge(begin, end, false); });
  judge(0, count, true);
  for (const DraftVerdict& v : verdicts) {
    const Drafted& d = drafted_[v.candidate];
    if (d.block.size() > 1) slots_[static_cast<size_t>(d.slot)].gate.Observe(v.accepted.drafts);
  }
}

}  // namespace thalweg::exec
