// The mixture of experts of one layer (spec/model.md 2.6).
#include "model/expert_parallel.h"
#include "model/run.h"

namespace thalweg::model {
namespace {

void ChooseExperts(Run& run, int layer) {
  const checkpoint::Config& c = run.config();
  const MoeWeights& w = run.layer(layer).ffn;
  const bool draft = run.plan(layer).draft;
  const int64_t topk = c.TopExperts(draft);
  run.ops().gate({.stream = run.stream(),
                  .rows = run.rows(),
                  .hidden = c.hidden_size,
                  .experts = c.Experts(draft),
                  .topk = topk,
                  .x = run.ws.normed,
                  .weight = w.gate,
                  .bias = w.bias,
                  .image_bias = w.image_bias,
                  .row_is_image = run.listed.image,
                  .route_scale = c.routed_scaling_factor,
                  .chosen = run.ws.experts,
                  .weights = run.ws.expert_weights});
  Observe(run, layer, point::kRouterExperts, run.ws.experts, {run.rows(), topk});
  Observe(run, layer, point::kRouterWeights, run.ws.expert_weights, {run.rows(), topk});
}

}  // namespace

void RunExperts(Run& run, int layer) {
  const checkpoint::Config& c = run.config();
  const MoeWeights& w = run.layer(layer).ffn;
  const kernels::ExpertsParams params = {.stream = run.stream(),
                                         .rows = run.rows(),
                                         .hidden = c.hidden_size,
                                         .inner = c.moe_intermediate_size,
                                         .topk = c.TopExperts(run.plan(layer).draft),
                                         .x = run.ws.normed_quantised,
                                         .chosen = run.ws.experts,
                                         .weights = run.ws.expert_weights,
                                         .experts = w.experts,
                                         .shared = w.shared,
                                         .swiglu_limit = c.swiglu_limit,
                                         .quantise = run.parts.options.activation_format,
                                         .out = run.ws.update};
  ExpertParallel* group = run.parts.options.expert_parallel;
  if (group != nullptr && group->Covers(layer)) return group->Mix(layer, run.ops(), params);
  run.ops().experts(params);
}

void MixExperts(Run& run, int layer) {
  ChooseExperts(run, layer);
  RunExperts(run, layer);
}

}  // namespace thalweg::model
