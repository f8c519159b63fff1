// A step of ranks that are devices: what this one has of it, and what runs then.
#include <algorithm>

#include "model/expert_parallel.h"
#include "model/state.h"

namespace thalweg::model {

// Ranks that share the rows of prompts say so in every step, and go through layers together.
void Model::State::AgreeOnStep(const Run& run, std::span<const Chunk> chunks, const Probe* probe) {
  terms = {};
  ExpertParallel* group = parts.options.expert_parallel;
  if (group == nullptr || !group->Agrees(*parts.options.ops)) return;
  const tensor::StepQueue* steps = memory().steps;
  int64_t tokens = 0;
  for (const int64_t position : run.batch.position) tokens = std::max(tokens, position + 1);
  const int64_t wanted = LogitRowsOf(chunks);
  terms = group->AgreeOnStep(
      {.rows = run.rows(),
       .most_rows = std::min(kMostGraphRows, parts.options.max_rows),
       .tokens = tokens,
       .logits = wanted,
       .no_logits = run.rows() - wanted,
       .few = probe == nullptr && parts.options.context_parallel == nullptr && FewRows(chunks),
       .records = graphs_on && steps != nullptr && steps->record != nullptr &&
                  parts.options.context_ranks == 1 && !parts.options.experts_move,
       .draft_context = run.draft_context});
}

void Model::State::EnqueueRouted(Run& run, StepOutput* output) {
  lists.live = static_cast<int32_t>(run.rows());
  if (terms.records) {
    AppendPadding(run, terms.rows - run.rows(), terms.logits ? LogitRows::kAll : LogitRows::kNone);
    run.fixed_sequences = run.rows();
    run.most_tokens = terms.tokens;
    run.draft_context = terms.draft_context;
  }
  const StepGraphs::Key key{.rows = run.rows(),
                            .tokens = terms.tokens,
                            .head = terms.logits,
                            .draft_context = run.draft_context};
  parts.options.expert_parallel->SetSettles(routed.insert(key).second);
  if (!terms.records) return BodyRouted(run, output);
  graphs.Run(key, [&](bool lists_alone) {
    run.idle = lists_alone ? &IdleOps() : nullptr;
    BodyRouted(run, output);
  });
}

void Model::State::BodyRouted(Run& run, StepOutput* output) {
  parts.options.expert_parallel->SetLive(run.List(&lists.live, 1));
  if (run.rows() == 0) return RunLayers(run);
  Body(run, output);
}

// The host waits here alone. When a rank is lost its device waits for what does not come: that
// ends, and then the step.
Status Model::State::AwaitRouted() {
  if (!terms.routes) return {};
  const tensor::StepQueue* steps = memory().steps;
  if (steps == nullptr) return CheckExperts();
  steps->end(stream());
  const Status status =
      parts.options.expert_parallel->AwaitStep([&] { return steps->done(stream()); });
  if (status.ok()) return steps->wait(stream());
  graphs.Clear();
  parts.options.expert_parallel->DropStep();
  static_cast<void>(memory().synchronize(stream()));
  return status;
}

}  // namespace thalweg::model
