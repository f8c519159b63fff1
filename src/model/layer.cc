// One layer in the order of the paper (spec/model.md 2.1).
#include "model/context_step.h"
#include "model/run.h"

namespace thalweg::model {
namespace {

// Below the decoder's first layer every row runs; from there on only the rows that replay keeps.
// The first decoder layer's compressed rows are made for all of them before the cut
// (spec/model.md 2.7).
void KeepDecoderRows(Run& run) {
  if (run.context != nullptr && run.context->Cut(run)) return run.ListBatch();
  const int64_t before = run.rows();
  run.batch.KeepDecoderRows(run.parts.frequencies, &run.lists.kept);
  if (run.context != nullptr) run.context->Clip(run);
  if (run.rows() == before) return;
  run.ListBatch();
  run.ws.Compact(run.List(run.lists.kept), run.rows(), run.config(), run.ops(), run.stream());
  KeepEngramRows(run, before, run.lists.kept);
}

void BeginLayer(Run& run, int layer) {
  const checkpoint::LayerPlan& plan = run.plan(layer);
  if (plan.engram) ApplyEngram(run, layer);
  if (plan.tap_index >= 0 && run.draft_context) TakeTap(run, layer);
  PredictSite(run, layer, Site::kAttention);
  if (plan.owns_kv) Compress(run, layer);
}

}  // namespace

void RunLayer(Run& run, int layer) {
  const checkpoint::LayerPlan& plan = run.plan(layer);
  if (run.rows() > 0) BeginLayer(run, layer);
  if (plan.owns_kv && run.context != nullptr) run.context->BeginGroups(run, layer);
  if (layer == run.config().DecoderBegin()) KeepDecoderRows(run);
  if (run.rows() > 0) ProjectQueryAndWindow(run, layer);
  if (run.context != nullptr) run.context->FinishGroups(run);
  if (run.context != nullptr) run.context->BeginWindow(run, layer);
  if (run.rows() > 0 && plan.owns_index) Select(run, layer);
  if (run.context != nullptr) run.context->FinishWindow(run, layer);
  if (run.rows() > 0) Attend(run, layer, TargetKeys(run, layer));
  CommitWindow(run, layer);
  if (run.rows() == 0) return;
  ProjectOut(run, layer);
  FinishSite(run, layer, Site::kAttention);

  PredictSite(run, layer, Site::kFfn);
  MixExperts(run, layer);
  FinishSite(run, layer, Site::kFfn);
}

}  // namespace thalweg::model
