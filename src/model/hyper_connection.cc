// Hyper-connections around a sublayer, and the draft taps (spec/model.md 2.1, 2.2, 2.8).
#include "model/run.h"

namespace thalweg::model {

void PredictSite(Run& run, int layer, Site site) {
  const bool attention = site == Site::kAttention;
  const LayerWeights& w = run.layer(layer);
  const HyperWeights& hc = attention ? w.hc_attn : w.hc_ffn;
  const int64_t n = run.config().hc_mult;
  run.ops().hyper_predict({.stream = run.stream(),
                           .rows = run.rows(),
                           .streams_n = n,
                           .hidden = run.config().hidden_size,
                           .streams = run.ws.streams,
                           .fn = hc.fn,
                           .base = hc.base,
                           .scale = hc.scale,
                           .sinkhorn_iters = static_cast<int>(run.config().hc_sinkhorn_iters),
                           .norm_eps = run.config().rms_norm_eps,
                           .hc_eps = run.config().hc_eps,
                           .pre_in = run.ws.pre_mix,
                           .norm_weight = attention ? w.attn_norm : w.ffn_norm,
                           .quantise = run.parts.options.activation_format,
                           .pre_out = run.ws.pre_next,
                           .post = run.ws.post,
                           .comb = run.ws.comb,
                           .normed = run.ws.normed,
                           .normed_quantised = run.ws.normed_quantised});
  run.ws.SwapPreMix();
  Observe(run, layer, attention ? point::kAttnPre : point::kFfnPre, run.ws.pre_mix,
          {run.rows(), n});
  Observe(run, layer, attention ? point::kAttnPost : point::kFfnPost, run.ws.post, {run.rows(), n});
  Observe(run, layer, attention ? point::kAttnComb : point::kFfnComb, run.ws.comb,
          {run.rows(), n, n});
  ObserveInput(run, layer, attention ? point::kAttnIn : point::kFfnIn, run.ws.normed,
               run.ws.normed_quantised);
}

void FinishSite(Run& run, int layer, Site site) {
  const int64_t n = run.config().hc_mult;
  const int64_t hidden = run.config().hidden_size;
  const bool attention = site == Site::kAttention;
  Observe(run, layer, attention ? point::kAttnOut : point::kMoeOut, run.ws.update,
          {run.rows(), hidden});
  run.ops().hyper_finish({.stream = run.stream(),
                          .rows = run.rows(),
                          .streams_n = n,
                          .hidden = hidden,
                          .update = run.ws.update,
                          .post = run.ws.post,
                          .comb = run.ws.comb,
                          .streams = run.ws.streams});
  if (attention) return;
  Observe(run, layer, point::kStreamsOut, run.ws.streams, {run.rows(), n, hidden});
  Observe(run, layer, point::kPreMixOut, run.ws.pre_mix, {run.rows(), n});
}

void TakeTap(Run& run, int layer) {
  const int64_t hidden = run.config().hidden_size;
  const int64_t at = run.plan(layer).tap_index * hidden;
  run.ops().tap(
      {.stream = run.stream(),
       .rows = run.rows(),
       .streams_n = run.config().hc_mult,
       .hidden = hidden,
       .streams = run.ws.streams,
       .quantise = run.parts.options.activation_format,
       .out = run.ws.taps + at,
       .out_quantised = run.ws.taps_quantised + at,
       .out_stride = static_cast<int64_t>(run.config().dspark_target_layer_ids.size()) * hidden});
}

}  // namespace thalweg::model
