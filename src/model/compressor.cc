// Compressed KV and index keys of the owner layers (spec/model.md 2.5). A group of `ratio` tokens
// makes one entry when its last token arrives; the first half of an open group waits in the pool.
#include <algorithm>

#include "model/run.h"

namespace thalweg::model {
namespace {

// Values of a token: from this step's rows, or from the half group an earlier step left.
kvpool::PendingGroup TokenValues(Run& run, int owner, const SequenceRows& s, int64_t position) {
  if (position < s.start) return run.pool.Pending(s.id, owner, position / 2);
  const int64_t at = (s.first_row + position - s.start) * run.config().head_dim;
  return {run.ws.group_kv + at, run.ws.group_score + at};
}

void AddGroup(Run& run, int owner, int64_t ratio, const SequenceRows& s, int64_t group,
              CompressedGroups* out) {
  out->position.push_back(group * ratio);
  out->main.push_back(run.pool.MainRows(s.id, owner).Row(group));
  out->index.push_back(run.pool.IndexRows(s.id, owner).Row(group));
  if (ratio == 1) {
    out->row.push_back(s.first_row + group - s.start);
    return;
  }
  const kvpool::PendingGroup first = TokenValues(run, owner, s, group * 2);
  const kvpool::PendingGroup second = TokenValues(run, owner, s, group * 2 + 1);
  out->first_kv.push_back(first.kv);
  out->first_score.push_back(first.score);
  out->second_kv.push_back(second.kv);
  out->second_score.push_back(second.score);
}

// As many groups as there are rows; what the added ones leave is never read.
void FillUpGroups(Run& run, CompressedGroups* out) {
  const int64_t width = run.config().head_dim;
  const int64_t bytes = width * static_cast<int64_t>(sizeof(float));  // more than any stored row
  for (int64_t i = out->count(); i < run.rows(); ++i) {
    auto* nowhere = reinterpret_cast<uint8_t*>(run.ws.move_scratch) + i * bytes;
    out->position.push_back(0);
    out->main.push_back(nowhere);
    out->index.push_back(nowhere);
    for (auto* kv : {&out->first_kv, &out->second_kv}) kv->push_back(run.ws.group_kv + i * width);
    for (auto* score : {&out->first_score, &out->second_score})
      score->push_back(run.ws.group_score + i * width);
  }
}

const CompressedGroups& CompleteGroups(Run& run, int owner, int64_t ratio) {
  CompressedGroups& out = run.lists.groups;
  out.Clear();
  for (const SequenceRows& s : run.batch.sequences) {
    // Shared rows are complete and may be in use by others: replayed tokens never write them.
    const int64_t from = std::max(s.start, run.pool.write_from(s.id));
    for (int64_t g = from / ratio; g < s.end() / ratio; ++g)
      AddGroup(run, owner, ratio, s, g, &out);
  }
  if (run.fixed_sequences > 0 && ratio == 2) FillUpGroups(run, &out);
  out.angles.Set(out.position, run.parts.frequencies.compressed);
  return out;
}

// Keeps the first half of the groups of this step, so that a later token, or a rollback to it,
// finds it: the newest that have a place each, for rows are copied in no order.
void KeepFirstHalves(Run& run, int owner) {
  run.lists.copy_from.clear();
  run.lists.copy_to.clear();
  for (const SequenceRows& s : run.batch.sequences) {
    if (s.shared >= 0) continue;  // ContextStep's
    const int64_t kept = 2 * run.pool.geometry().PendingRows();
    const int64_t newest = s.end() + s.end() % 2 - kept;
    for (int64_t p = std::max(s.start + s.start % 2, newest); p < s.end(); p += 2) {
      const kvpool::PendingGroup from = TokenValues(run, owner, s, p);
      const kvpool::PendingGroup to = run.pool.Pending(s.id, owner, p / 2);
      run.lists.copy_from.insert(run.lists.copy_from.end(), {from.kv, from.score});
      run.lists.copy_to.insert(run.lists.copy_to.end(), {to.kv, to.score});
    }
  }
  const int64_t bytes = run.config().head_dim * static_cast<int64_t>(sizeof(float));
  if (run.fixed_sequences > 0) FillUpCopies(run, 2 * run.rows(), run.ws.group_kv, bytes);
  CopyListedRows(run, bytes);
}

void ProjectTokens(Run& run, const CompressorWeights& w, int64_t ratio) {
  const kernels::Projection one[] = {{.weight = w.wkv, .out_bf16 = run.ws.group_kv_bf16}};
  const kernels::Projection two[] = {{.weight = w.wkv, .out_f32 = run.ws.group_kv},
                                     {.weight = w.wgate, .out_f32 = run.ws.group_score}};
  const std::span<const kernels::Projection> projections =
      ratio == 1 ? std::span<const kernels::Projection>(one) : two;
  run.ops().linear({.stream = run.stream(),
                    .rows = run.rows(),
                    .in = run.config().hidden_size,
                    .x = run.ws.normed,
                    .projections = projections});
}

// Values of ratio 1 are pooled in the order of the groups: where rows make none, the others move
// up.
void MoveRowsUp(Run& run, const CompressedGroups& groups) {
  if (groups.count() == run.rows()) return;
  run.ops().compact_rows({.stream = run.stream(),
                          .count = groups.count(),
                          .bytes = run.config().head_dim * static_cast<int64_t>(sizeof(BF16)),
                          .kept = run.List(groups.row),
                          .data = run.ws.group_kv_bf16,
                          .scratch = run.ws.move_scratch});
}

void PoolGroups(Run& run, const CompressorWeights& w, int64_t ratio,
                const CompressedGroups& groups) {
  if (ratio == 1) MoveRowsUp(run, groups);
  const auto listed = [&](const std::vector<const float*>& list) {
    return std::span(run.List(list), list.size());
  };
  run.ops().pool({.stream = run.stream(),
                  .groups = groups.count(),
                  .width = run.config().head_dim,
                  .ratio = ratio,
                  .kv_bf16 = run.ws.group_kv_bf16,
                  .first_kv = listed(groups.first_kv),
                  .first_score = listed(groups.first_score),
                  .second_kv = listed(groups.second_kv),
                  .second_score = listed(groups.second_score),
                  .norm_weight = w.norm,
                  .norm_eps = run.config().rms_norm_eps,
                  .latent = run.ws.latent});
  // The index key is made of the latent before rotation and quantisation.
  const kernels::Projection key{.weight = w.index_wk, .out_bf16 = run.ws.index_k};
  run.ops().linear({.stream = run.stream(),
                    .rows = groups.count(),
                    .in = run.config().head_dim,
                    .x = run.ws.latent,
                    .projections = {&key, 1}});
}

void StoreGroups(Run& run, const CompressorWeights& w, const CompressedGroups& groups) {
  kernels::Rotation rotation = groups.angles.rotation();
  rotation.cos = run.List(rotation.cos, groups.count() * rotation.rope_dim / 2);
  rotation.sin = run.List(rotation.sin, groups.count() * rotation.rope_dim / 2);
  kernels::StoreRowsParams store{.stream = run.stream(),
                                 .rows = groups.count(),
                                 .width = run.config().head_dim,
                                 .x = run.ws.latent,
                                 .norm_weight = nullptr,
                                 .norm_eps = run.config().rms_norm_eps,
                                 .rotation = rotation,
                                 .format = run.pool.geometry().main_format,
                                 .destination = run.List(groups.main)};
  run.ops().store_rows(store);
  store.width = run.config().index_head_dim;
  store.x = run.ws.index_k;
  store.norm_weight = w.index_k_norm;
  store.format = run.pool.geometry().index_format;
  store.destination = run.List(groups.index);
  run.ops().store_rows(store);
}

void ObserveRows(const Run& run, int layer, std::string_view name, tensor::RowFormat format,
                 int64_t width, const std::vector<uint8_t*>& rows) {
  if (run.probe == nullptr || !run.probe->Wants(layer, name)) return;
  std::vector<float> values(static_cast<size_t>(width));
  std::vector<BF16> decoded;
  for (uint8_t* row : rows) {
    HostView view(run, row, tensor::RowBytes(format, width));
    tensor::DecodeRow(format, view.as<uint8_t>(), width, values.data());
    for (const float v : values) decoded.push_back(tensor::ToBF16(v));
  }
  ObserveHost(run, layer, name, decoded.data(), {static_cast<int64_t>(rows.size()), width});
}

void ObservePending(Run& run, int layer, int owner) {
  const SequenceRows& last = run.batch.sequences.back();
  if (last.end() % 2 == 0) return;
  const kvpool::PendingGroup half = run.pool.Pending(last.id, owner, last.end() / 2);
  Observe(run, layer, point::kPendingKv, half.kv, {1, run.config().head_dim});
  Observe(run, layer, point::kPendingScore, half.score, {1, run.config().head_dim});
}

}  // namespace

void CompressedGroups::Clear() {
  position.clear();
  row.clear();
  main.clear();
  index.clear();
  for (auto* values : {&first_kv, &first_score, &second_kv, &second_score}) values->clear();
}

void Compress(Run& run, int layer) {
  const CompressorWeights& w = *run.layer(layer).attn.compressor;
  const int owner = run.parts.owner_of_layer[static_cast<size_t>(layer)];
  const int64_t ratio = run.plan(layer).ratio;
  ProjectTokens(run, w, ratio);
  const CompressedGroups& groups = CompleteGroups(run, owner, ratio);
  if (groups.count() > 0) {
    PoolGroups(run, w, ratio, groups);
    StoreGroups(run, w, groups);
  }
  const kvpool::Geometry& g = run.pool.geometry();
  ObserveRows(run, layer, point::kCompressedKv, g.main_format, run.config().head_dim, groups.main);
  ObserveRows(run, layer, point::kIndexK, g.index_format, run.config().index_head_dim,
              groups.index);
  if (ratio == 1) return;
  KeepFirstHalves(run, owner);
  ObservePending(run, layer, owner);
}

}  // namespace thalweg::model
