// Attention over the sliding window and the selected compressed entries (spec/model.md 2.5).
#include <cmath>

#include "model/context_step.h"
#include "model/run.h"

namespace thalweg::model {
namespace {

const kernels::Rotation& LayerRotation(const Run& run, int layer) {
  return run.plan(layer).ratio > 0 ? run.listed.compressed : run.listed.plain;
}

void ObserveWindow(const Run& run, int layer) {
  if (run.probe == nullptr || !run.probe->Wants(layer, point::kWindowKv)) return;
  const kvpool::Geometry& g = run.pool.geometry();
  std::vector<float> row(static_cast<size_t>(g.window_width));
  std::vector<BF16> decoded;
  HostView chunk(run, run.ws.window_chunk, run.rows() * g.WindowRowBytes());
  for (int64_t r = 0; r < run.rows(); ++r) {
    tensor::DecodeRow(g.window_format, chunk.as<uint8_t>() + r * g.WindowRowBytes(), g.window_width,
                      row.data());
    for (const float v : row) decoded.push_back(tensor::ToBF16(v));
  }
  ObserveHost(run, layer, point::kWindowKv, decoded.data(), {run.rows(), g.window_width});
}

}  // namespace

void MakeWindowRows(Run& run, int layer) {
  run.ops().window_rows({.stream = run.stream(),
                         .rows = run.rows(),
                         .width = run.config().head_dim,
                         .kv = run.ws.kv,
                         .norm_weight = run.layer(layer).attn.kv_norm,
                         .norm_eps = run.config().rms_norm_eps,
                         .rotation = LayerRotation(run, layer),
                         .format = run.pool.geometry().window_format,
                         .out = run.ws.window_chunk});
  ObserveWindow(run, layer);
}

void ProjectQueryAndWindow(Run& run, int layer) {
  const checkpoint::Config& c = run.config();
  const AttentionWeights& w = run.layer(layer).attn;
  const kernels::Projection low[] = {{.weight = w.wq_a, .out_bf16 = run.ws.q_low},
                                     {.weight = w.wkv, .out_bf16 = run.ws.kv}};
  run.ops().linear({.stream = run.stream(),
                    .rows = run.rows(),
                    .in = c.hidden_size,
                    .x = run.ws.normed_quantised,
                    .projections = low});
  run.ops().norm({.stream = run.stream(),
                  .rows = run.rows(),
                  .width = c.q_lora_rank,
                  .x = run.ws.q_low,
                  .weight = w.q_norm,
                  .eps = c.rms_norm_eps,
                  .quantise = run.parts.options.activation_format,
                  .out_quantised = run.ws.q_low_quantised});
  MakeWindowRows(run, layer);
  const kernels::Projection query{.weight = w.wq_b, .out_bf16 = run.ws.q};
  run.ops().linear({.stream = run.stream(),
                    .rows = run.rows(),
                    .in = c.q_lora_rank,
                    .x = run.ws.q_low_quantised,
                    .projections = {&query, 1}});
}

void AttentionKeys::Clear() {
  window.clear();
  selected.clear();
  listed_window = nullptr;
  window_end = nullptr;
  selection = nullptr;
  topk = 0;
}

AttentionKeys& TargetKeys(Run& run, int layer) {
  const kvpool::Geometry& g = run.pool.geometry();
  const int owner = run.parts.owner_of_layer[static_cast<size_t>(layer)];
  AttentionKeys& keys = run.lists.keys;
  keys.Clear();
  for (const SequenceRows& s : run.batch.sequences) {
    keys.window.push_back({.ring = run.pool.Ring(s.id, layer),
                           .ring_rows = g.RingRows(),
                           .chunk = run.ws.window_chunk + s.first_row * g.WindowRowBytes(),
                           .chunk_begin = s.start,
                           .floor = run.plan(layer).decoder ? run.pool.decoder_floor(s.id)
                                                            : run.pool.encoder_floor(s.id)});
    if (owner >= 0) keys.selected.push_back(run.pool.MainRows(s.id, owner));
  }
  keys.window_end = run.listed.position;
  keys.selection = run.ws.selection;
  keys.topk = run.config().index_topk;
  return keys;
}

void Attend(Run& run, int layer, AttentionKeys& keys) {
  const checkpoint::Config& c = run.config();
  const tensor::PagedRows* selected =
      keys.selected.empty() ? nullptr : ListRows(run, &keys.selected);
  run.ops().attention(
      {.stream = run.stream(),
       .rows = run.rows(),
       .heads = c.num_attention_heads,
       .width = c.head_dim,
       .window = c.sliding_window,
       .query = run.ws.q,
       .rotation = LayerRotation(run, layer),
       .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim))),
       .sink = run.layer(layer).attn.sink,
       .row_sequence = run.listed.row_sequence,
       .window_end = keys.window_end,
       .window_keys =
           keys.listed_window != nullptr ? keys.listed_window : run.ListSequences(&keys.window),
       .window_format = run.pool.geometry().window_format,
       .selected_rows = selected,
       .selection = keys.selection,
       .topk = keys.topk,
       .out = run.ws.heads_out});
}

void CommitWindow(Run& run, int layer) {
  const kvpool::Geometry& g = run.pool.geometry();
  const int64_t bytes = g.WindowRowBytes();
  run.lists.copy_from.clear();
  run.lists.copy_to.clear();
  for (const SequenceRows& s : run.batch.sequences) {
    if (s.shared >= 0) continue;
    uint8_t* ring = run.pool.Ring(s.id, layer);
    for (int64_t i = std::max<int64_t>(0, s.rows - g.RingRows()); i < s.rows; ++i) {
      run.lists.copy_from.push_back(run.ws.window_chunk + (s.first_row + i) * bytes);
      run.lists.copy_to.push_back(ring + (s.start + i) % g.RingRows() * bytes);
    }
  }
  if (run.fixed_sequences > 0) FillUpCopies(run, run.rows(), run.ws.window_chunk, bytes);
  CopyListedRows(run, bytes);
  if (run.context != nullptr) run.context->CommitWindow(run, layer);
}

void ProjectOut(Run& run, int layer) {
  const checkpoint::Config& c = run.config();
  const AttentionWeights& w = run.layer(layer).attn;
  run.ops().grouped_linear({.stream = run.stream(),
                            .rows = run.rows(),
                            .groups = c.o_groups,
                            .group_in = c.num_attention_heads * c.head_dim / c.o_groups,
                            .group_out = c.o_lora_rank,
                            .x = run.ws.heads_out,
                            .weight = w.wo_a,
                            .quantise = run.parts.options.activation_format,
                            .out = run.ws.o_low});
  const kernels::Projection out{.weight = w.wo_b, .out_bf16 = run.ws.update};
  run.ops().linear({.stream = run.stream(),
                    .rows = run.rows(),
                    .in = c.o_groups * c.o_lora_rank,
                    .x = run.ws.o_low,
                    .projections = {&out, 1}});
}

}  // namespace thalweg::model
