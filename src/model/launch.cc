// Steps that a device runs beside the host: launched, completed by the choice of tokens, collected.
#include <algorithm>

#include "model/state.h"

namespace thalweg::model {
namespace {

// Row `row` of those of a sequence that have logits.
kernels::ChooseRow ChoiceOf(const SequenceRows& s, int64_t row) {
  kernels::ChooseRow choice = s.choose;
  if (choice.slot < 0) return choice;
  choice.position += row;
  if (s.logit_rows() > 1) choice.slot = kernels::ChooseRow::kKeptNowhere;
  return choice;
}

}  // namespace

// Masks of rows lie one behind the other.
void Model::State::ListMasks(Run& run, std::span<const RowMask> masks,
                             kernels::ChooseParams* choose) {
  const int64_t words = base::CeilDiv<int64_t>(run.config().vocab_size, 32);
  lists.masks.clear();
  for (size_t r = 0; r < masks.size(); ++r) {
    kernels::ChooseRow& choice = lists.choices[r];
    if (!masks[r].reached) choice.slot = kernels::ChooseRow::kNotChosen;
    if (choice.slot == kernels::ChooseRow::kNotChosen || masks[r].words == nullptr) continue;
    choice.mask = static_cast<int32_t>(choose->masks_count++);
    lists.masks.insert(lists.masks.end(), masks[r].words, masks[r].words + words);
  }
  if (choose->masks_count > 0) choose->masks = run.List(lists.masks);
}

void Model::State::ChooseTokens(Run& run, std::span<const RowMask> masks) {
  lists.choices.clear();
  for (const SequenceRows& s : run.batch.sequences) {
    for (int64_t row = 0; row < s.logit_rows(); ++row) lists.choices.push_back(ChoiceOf(s, row));
  }
  kernels::ChooseParams choose{.stream = run.stream(),
                               .rows = launched_rows,
                               .vocab = run.config().vocab_size,
                               .logits = logits,
                               .stride = run.config().vocab_size,
                               .newest = results.newest(),
                               .tokens = results.chosen()};
  ListMasks(run, masks, &choose);
  choose.choices = run.List(lists.choices.data(), launched_rows);
  run.ops().choose(choose);
}

void Model::State::AcceptDrafts(Run& run) {
  run.ops().accept({.stream = run.stream(),
                    .blocks_count = static_cast<int64_t>(lists.blocks.size()),
                    .blocks = run.List(lists.blocks),
                    .tokens = results.chosen(),
                    .newest = results.newest(),
                    .accepted = results.accepted()});
}

bool Model::CanLaunch(int64_t logit_rows) const {
  const State& s = *state_;
  return s.memory().steps != nullptr && s.parts.options.ops->choose != nullptr && !s.InGroup() &&
         logit_rows <= MostLaunchRows();
}

int64_t Model::MostLaunchRows() const { return std::min(kMostGraphRows, options().max_rows); }

Status Model::Launch(std::span<const Chunk> chunks) {
  State& s = *state_;
  TW_CHECK(CanLaunch(LogitRowsOf(chunks)));
  TW_CHECK_LT(s.results.under_way(), 2);
  TW_TRY(s.CheckStep(chunks));
  StepOutput nothing;
  s.Enqueue(chunks, nullptr, &nothing);
  s.launched_rows = LogitRowsOf(chunks);
  s.launched_chunks = chunks.size();
  s.Commit(chunks);
  return {};
}

void Model::Choose(const Choosing& choosing) {
  State& s = *state_;
  Run run = s.MakeRun(nullptr);
  const auto all = std::span(s.lists.batch.sequences).first(s.launched_chunks);
  StepResults::Wanted wanted{.rows = s.launched_rows};
  int32_t row = 0;
  bool drafted = false;
  s.lists.blocks.clear();
  s.behind.clear();
  for (size_t i = 0; i < all.size(); ++i) {
    const SequenceRows& q = all[i];
    const auto rows = static_cast<int32_t>(q.logit_rows());
    wanted.logits |= rows > 0 && q.choose.slot < 0;
    if (rows > 0 && q.choose.slot >= 0) {
      const bool block = q.drafts_at >= 0;
      drafted |= block;
      if (!choosing.draft.empty() && choosing.draft[i] != 0) {
        s.behind.push_back({.id = q.id,
                            .start = q.choose.position,
                            .of = static_cast<int32_t>(s.lists.blocks.size()),
                            .choose = q.choose});
      }
      s.lists.blocks.push_back({.first_row = row,
                                .rows = block ? rows : 1,
                                .drafts = block ? q.drafts_at : 0,
                                .slot = q.choose.slot});
    }
    row += rows;
  }
  wanted.chosen = !s.lists.blocks.empty();
  if (wanted.chosen) s.ChooseTokens(run, choosing.masks);
  if (drafted || !s.behind.empty()) {
    s.AcceptDrafts(run);
    wanted.blocks = static_cast<int64_t>(s.lists.blocks.size());
  }
  s.results.Launched(wanted);
  s.memory().steps->end(s.stream());
  if (!s.behind.empty()) s.LaunchDrafts();
}

bool Model::Done() const { return state_->memory().steps->done(state_->stream()); }

Status Model::Collect(StepOutput* output) {
  State& s = *state_;
  TW_CHECK_GT(s.results.under_way(), 0);
  TW_CHECK(!HasDrafts());
  const Status status = s.memory().steps->wait(s.stream());
  s.results.Collect(output);
  return status;
}

bool Model::HasDrafts() const { return state_->results.has_drafts(); }

Status Model::CollectDrafts(LaunchedDrafts* output) {
  State& s = *state_;
  TW_CHECK(HasDrafts());
  const Status status = s.memory().steps->wait(s.stream());
  s.results.CollectDrafts(output);
  return status;
}

int32_t Model::DraftsAt(int32_t slot) const { return state_->results.DraftsAt(slot); }

}  // namespace thalweg::model
