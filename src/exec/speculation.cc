#include "exec/speculation.h"

#include <algorithm>

#include "base/check.h"
#include "exec/draft_lengths.h"
#include "spec/confidence.h"

namespace thalweg::exec {
namespace {

sampling::TokenMask MaskOf(const NextTokens& next) {
  sampling::TokenMask mask = {.complete = next.complete};
  if (next.mask != nullptr) mask.words = *next.mask;
  return mask;
}

// Forced text takes the place of drafts that say something else, and stands before those that agree
// with all of it. Returns how many are to be verified then, of `drafted` and `forced_length`.
int64_t PutForced(std::span<const ForcedDraft> forced, int64_t forced_length, int64_t drafted,
                  std::vector<int32_t>* block, std::vector<float>* confidences) {
  const auto same = [](const ForcedDraft& f, int32_t token) { return f.token == token; };
  if (block->size() > forced.size() &&
      std::equal(forced.begin(), forced.end(), block->begin() + 1, same))
    return std::max(forced_length, drafted);
  block->resize(1);
  for (const ForcedDraft& f : forced) block->push_back(f.token);
  confidences->clear();
  return forced_length;
}

}  // namespace

Speculation::Speculation(model::Model* model, DraftOptions options)
    : model_(model),
      options_(std::move(options)),
      slots_(static_cast<size_t>(model->options().max_sequences)),
      forced_({.always = options_.always, .costs = options_.costs}) {
  if (options_.drafts == 0 || !options_.costs.has_value()) return;
  planner_.emplace(spec::CostTable(*options_.costs),
                   spec::PlannerOptions{.slots = static_cast<size_t>(options_.drafts),
                                        .variable = options_.variable,
                                        .temperatures = options_.temperatures});
}

Speculation::~Speculation() { LogDrafting(planner_); }

void Speculation::Begin(int32_t slot, uint64_t sequence, bool seeded) {
  slots_[static_cast<size_t>(slot)] = {.sequence = sequence, .seeded = seeded, .block = {}};
  if (planner_.has_value()) planner_->Begin(sequence);
}

void Speculation::End(int32_t slot) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  if (planner_.has_value() && s.sequence != 0) planner_->End(s.sequence);
  s = {};
}

// The block that was made for the newest token, if there is one.
void Speculation::ReadBlock(const DraftEntry& e, Run* run) {
  Slot& slot = At(e);
  const std::span<const int32_t> known = e.state->tokens();
  run->rule = spec::RuleFor(e.state->params(), slot.seeded);
  run->position = static_cast<int64_t>(known.size());
  run->block.assign(1, known.back());
  run->confidences.clear();
  run->draft = true;
  run->accepted = {};
  if (!e.decodes || !slot.block.Follows(e.sequence, run->position - 1, known.back())) return;
  const std::vector<int32_t>& tokens = slot.block.tokens;
  run->block.insert(run->block.end(), tokens.begin(), tokens.end());
  run->confidences = slot.block.confidences;
}

void Speculation::ChooseLengths(uint64_t step, std::span<const DraftEntry> entries,
                                int64_t other_rows) {
  std::vector<LengthEntry> wanted;
  for (size_t i = 0; i < entries.size(); ++i) {
    wanted.push_back({.sequence = entries[i].sequence,
                      .decodes = entries[i].decodes,
                      .tokens_left = entries[i].tokens_left,
                      .most = most_[i],
                      .room = static_cast<int32_t>(entries[i].most),
                      .confidences = runs_[i].confidences});
  }
  const DraftLengths chosen = exec::ChooseLengths(options_, &planner_, step, wanted, other_rows);
  draft_context_ = chosen.context;
  lengths_ = chosen.verify;
  for (size_t i = 0; i < entries.size(); ++i) runs_[i].draft = chosen.draft[i] != 0;
}

void Speculation::Plan(uint64_t step, std::span<const DraftEntry> entries, int64_t other_rows) {
  step_ = step;
  if (runs_.size() < entries.size()) runs_.resize(entries.size());
  most_.clear();
  for (size_t i = 0; i < entries.size(); ++i) {
    ReadBlock(entries[i], &runs_[i]);
    const auto drafts = static_cast<int64_t>(runs_[i].block.size()) - 1;
    most_.push_back(static_cast<int32_t>(std::min(drafts, entries[i].most)));
  }
  lengths_ = most_;
  if (planner_.has_value()) ChooseLengths(step, entries, other_rows);
  PlanForced(entries, other_rows);
  for (size_t i = 0; i < entries.size(); ++i) Settle(entries[i], i);
}

void Speculation::PlanForced(std::span<const DraftEntry> entries, int64_t other_rows) {
  decodes_alone_ = other_rows == 0;
  asked_.assign(entries.size(), {});
  spec::StepLoad load = {.other_rows = other_rows};
  for (size_t i = 0; i < entries.size(); ++i) {
    const DraftEntry& e = entries[i];
    (e.decodes ? load.sequences : load.other_samples) += 1;
    load.other_rows += std::min(lengths_[i], most_[i]);
    decodes_alone_ = decodes_alone_ && e.decodes;
    if (options_.forced && e.decodes) asked_[i] = {.masks = e.masks, .most = e.most};
  }
  forced_.Plan(*model_->options().team, asked_, load);
}

// What of its block an entry verifies.
void Speculation::Settle(const DraftEntry& e, size_t index) {
  Run& run = runs_[index];
  int64_t length = std::min(lengths_[index], most_[index]);
  const auto forced = forced_.drafts(index);
  if (!forced.empty())
    length = PutForced(forced, forced_.length(index), length, &run.block, &run.confidences);
  run.block.resize(1 + static_cast<size_t>(length));
  run.certain = std::min(length, static_cast<int64_t>(forced.size()));
  run.logits = {};
  if (run.rule != spec::Rule::kRejection || length == run.certain) return;
  const int64_t vocab = model_->config().vocab_size;
  run.logits = std::span<const float>(At(e).block.logits)
                   .subspan(static_cast<size_t>(run.certain * vocab),
                            static_cast<size_t>((length - run.certain) * vocab));
}

void Speculation::JudgeOne(const DraftEntry& e, std::span<float> logits, Run* run,
                           sampling::Scratch* scratch, spec::LawBuffers* buffers) const {
  const auto drafts = std::span<const int32_t>(run->block).subspan(1);
  std::vector<NextTokens> next;
  std::vector<sampling::TokenMask> masks;
  if (e.masks != nullptr) {
    auto along = e.masks->WaitAlong(drafts);
    if (!along.ok()) {
      run->accepted.status = along.status();
      return;
    }
    next = std::move(*along);
    for (const NextTokens& n : next) masks.push_back(MaskOf(n));
  }
  const spec::VerifyBlock block = {.logits = logits,
                                   .rows = static_cast<int64_t>(run->block.size()),
                                   .drafts = drafts,
                                   .certain = run->certain,
                                   .draft_logits = run->logits,
                                   .masks = masks,
                                   .processor = e.processor,
                                   .position = run->position,
                                   .rule = run->rule};
  run->accepted = spec::Accept(block, e.state, scratch, buffers);
}

// Processors are the caller's code: they are called on the executing thread, in order.
void Speculation::Judge(std::span<const DraftEntry> entries,
                        std::span<const std::span<float>> logits, sampling::ScratchPool* scratch) {
  const auto judge = [&](int64_t begin, int64_t end, bool processors) {
    auto own = scratch->Take();
    spec::LawBuffers buffers;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (logits[i].empty() || (entries[i].processor != nullptr) != processors) continue;
      JudgeOne(entries[i], logits[i], &runs_[i], own.get(), &buffers);
    }
    scratch->Give(std::move(own));
  };
  const auto count = static_cast<int64_t>(entries.size());
  model_->options().team->ParallelFor(
      count, 1, [&](int64_t begin, int64_t end) { judge(begin, end, false); });
  judge(0, count, true);
}

// Errors of a draw are logits that are not finite: the first token stands in, and the target, whose
// draft this is, says no.
void Speculation::Request(const DraftEntry& e, size_t index) {
  const std::span<const int32_t> known = e.state->tokens();
  const auto position = static_cast<int64_t>(known.size());
  const spec::Rule rule = runs_[index].rule;
  const step::SamplingParams* params = &e.state->params();
  requests_.push_back({.sequence = e.id,
                       .token = known.back(),
                       .choose = [this, params, rule, position](
                                     int slot, std::span<const float> logits) -> int32_t {
                         const auto token = spec::DrawDraft(logits, *params, position + slot, slot,
                                                            rule, &buffers_);
                         return token.ok() ? *token : 0;
                       }});
  requested_.push_back(index);
}

// What the step has cost, up to here.
void Speculation::NoteStep(size_t entries) {
  int64_t rows = 0;
  for (size_t i = 0; i < entries; ++i) rows += static_cast<int64_t>(runs_[i].block.size());
  if (rows > 0) forced_.Ran(rows);
}

Status Speculation::DraftNext(std::span<const DraftEntry> entries,
                              std::span<const uint8_t> goes_on) {
  if (decodes_alone_) NoteStep(entries.size());
  if (options_.drafts == 0) return {};
  requests_.clear();
  requested_.clear();
  const auto most =
      static_cast<size_t>(model_->options().max_rows / model_->config().dspark_block_size);
  for (size_t i = 0; i < entries.size(); ++i) {
    At(entries[i]).block.sequence = 0;
    if (goes_on[i] != 0 && runs_[i].draft && requests_.size() < most) Request(entries[i], i);
  }
  if (!requests_.empty()) TW_TRY(model_->Draft(requests_, &output_));
  StoreBlocks(entries);
  if (planner_.has_value()) Observe(entries);
  return {};
}

void Speculation::StoreBlocks(std::span<const DraftEntry> entries) {
  const auto block = static_cast<size_t>(model_->config().dspark_block_size);
  const auto used = std::min(block, static_cast<size_t>(options_.drafts));
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  for (size_t r = 0; r < requested_.size(); ++r) {
    const DraftEntry& e = entries[requested_[r]];
    spec::DraftBlock& out = At(e).block;
    const auto tokens = std::span(output_.tokens).subspan(r * block, used);
    const auto confidences = std::span(output_.confidence).subspan(r * block, used);
    out.sequence = e.sequence;
    out.position = static_cast<int64_t>(e.state->tokens().size()) - 1;
    out.anchor = e.state->tokens().back();
    out.tokens.assign(tokens.begin(), tokens.end());
    out.confidences.assign(confidences.begin(), confidences.end());
    out.logits.clear();
    if (runs_[requested_[r]].rule != spec::Rule::kRejection) continue;
    const auto logits = std::span(output_.logits).subspan(r * block * vocab, used * vocab);
    out.logits.assign(logits.begin(), logits.end());
  }
}

void Speculation::Observe(std::span<const DraftEntry> entries) {
  std::vector<spec::DraftOutcome> outcomes;
  for (size_t i = 0; i < entries.size(); ++i) {
    const spec::DraftBlock& next = At(entries[i]).block;
    const Run& run = runs_[i];
    const int64_t drafts = static_cast<int64_t>(run.block.size()) - 1;
    outcomes.push_back({.sequence = entries[i].sequence,
                        .verified = run.confidences.empty() ? 0 : drafts,
                        .accepted = run.accepted.drafts,
                        .verified_confidences = run.confidences,
                        .next_confidences = next.sequence != 0
                                                ? std::span<const float>(next.confidences)
                                                : std::span<const float>()});
  }
  planner_->Observe(step_, outcomes);
}

}  // namespace thalweg::exec
