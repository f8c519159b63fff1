// Draft blocks behind a launched step: which position they stand at depends on how many drafts the
// step accepted, which the device alone knows. Lists are made for the least position, and moved on
// by a kernel; tokens go from kernel to kernel.
#include <algorithm>

#include "model/state.h"

namespace thalweg::model {
namespace {

using kernels::ChooseRow;

// The list's own memory, which a kernel writes.
template <typename T>
T* Changed(const T* list) {
  return const_cast<T*>(list);
}

}  // namespace

// A block's rows: the newest token of the slot, then noise. Missing sequences are filled up with
// one that nobody reads.
void Model::State::FillLaunchedDrafts(bool fill_up) {
  const checkpoint::Config& c = parts.config;
  std::vector<int32_t>& tokens = lists.draft_tokens;
  tokens.assign(static_cast<size_t>(c.dspark_block_size),
                static_cast<int32_t>(c.dspark_noise_token_id));
  lists.batch.Clear();
  const auto wanted = static_cast<int64_t>(behind.size());
  const int64_t filled = fill_up ? FilledRows(wanted) : wanted;
  behind.resize(static_cast<size_t>(filled), {.id = pool.padding()});
  for (const Behind& b : behind) {
    tokens.front() = b.of < 0 ? 0 : -1 - b.choose.slot;
    lists.batch.Append({.id = b.id, .start = b.start}, tokens, {});
  }
  lists.batch.SetAngles(parts.frequencies);
}

// Slot i of every block: as ChainSlot (draft.cc) with tokens that the device draws.
void Model::State::ChainLaunched(Run& run, int64_t slot, float* base, const ChooseRow* choices) {
  const auto sequences = static_cast<int64_t>(behind.size());
  std::vector<int32_t>& previous = lists.draft_tokens;
  previous.clear();
  for (const Behind& b : behind) {
    const int32_t at = slot == 0 ? b.choose.slot
                                 : results.DraftsAt(b.choose.slot) + static_cast<int32_t>(slot) - 1;
    previous.push_back(b.of < 0 ? 0 : -1 - at);
  }
  kernels::MarkovParams markov = MarkovOf(run, slot, base);
  markov.rows = sequences;
  markov.previous = run.List(previous);
  markov.newest = run.newest;
  markov.confidence_out = run.ws.confidence + slot * sequences;
  run.ops().markov(markov);
  run.ops().choose({.stream = run.stream(),
                    .rows = sequences,
                    .vocab = markov.vocab,
                    .logits = markov.logits,
                    .stride = markov.logits_stride,
                    .choices = choices + slot * sequences,
                    .newest = results.newest()});
}

void Model::State::Advance(Run& run, const DraftLists& draft, const ChooseRow* choices) {
  const int64_t block = run.config().dspark_block_size;
  const int64_t reach = 2 * block;  // a step accepts a block at most
  lists.ahead.clear();
  lists.accepted_of.clear();
  for (const Behind& b : behind) {
    lists.accepted_of.push_back(b.of);
    for (int64_t i = 0; i < reach; ++i) lists.ahead.push_back(b.start + i);
  }
  lists.ahead_angles.Set(lists.ahead, parts.frequencies.plain);
  kernels::Rotation ahead = lists.ahead_angles.rotation();
  const auto angles = static_cast<int64_t>(lists.ahead.size()) * ahead.rope_dim / 2;
  ahead.cos = run.List(ahead.cos, angles);
  ahead.sin = run.List(ahead.sin, angles);
  run.ops().advance({.stream = run.stream(),
                     .sequences = static_cast<int64_t>(behind.size()),
                     .block = block,
                     .stages = run.config().num_nextn_predict_layers,
                     .accepted = results.accepted(),
                     .of = run.List(lists.accepted_of),
                     .window_keys = Changed(draft.window),
                     .window_end = Changed(draft.window_end),
                     .choices = Changed(choices),
                     .rotation = run.listed.plain,
                     .ahead = ahead,
                     .ahead_rows = reach});
}

void Model::State::DraftLaunched(Run& run) {
  const int64_t block = run.config().dspark_block_size;
  run.ListBatch();
  const DraftLists draft = ListDraft(run);
  lists.choices.clear();
  for (int64_t slot = 0; slot < block; ++slot) {
    for (const Behind& b : behind) {
      ChooseRow choice = b.choose;
      choice.position = b.start + 1 + slot;
      if (b.of >= 0) choice.slot = results.DraftsAt(b.choose.slot) + static_cast<int32_t>(slot);
      lists.choices.push_back(choice);
    }
  }
  const ChooseRow* choices = run.List(lists.choices);
  Advance(run, draft, choices);
  std::vector<float> nothing;
  float* base = RunDraftStages(run, draft, &nothing);
  for (int64_t slot = 0; slot < block; ++slot) ChainLaunched(run, slot, base, choices);
}

void Model::State::LaunchDrafts() {
  const int64_t block = parts.config.dspark_block_size;
  const int64_t rows = FilledRows(static_cast<int64_t>(behind.size())) * block;
  const bool recorded = graphs_on && rows <= std::min(kMostGraphRows, parts.options.max_rows);
  memory().steps->begin(stream());
  workspace.Begin();
  FillLaunchedDrafts(recorded);
  Run run = MakeRun(nullptr);
  if (recorded) {
    run.fixed_sequences = static_cast<int64_t>(behind.size());
    graphs.Run({.rows = rows, .draft = true}, [&](bool lists_alone) {
      run.idle = lists_alone ? &IdleOps() : nullptr;
      DraftLaunched(run);
    });
  } else {
    DraftLaunched(run);
  }
  results.Drafted(workspace.confidence, static_cast<int64_t>(behind.size()));
  memory().steps->end(stream());
}

}  // namespace thalweg::model
