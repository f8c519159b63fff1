// The selection of an index source: which compressed entries its layers attend to
// (spec/model.md 2.5).
#include <algorithm>
#include <cmath>

#include "model/run.h"

namespace thalweg::model {
namespace {

// Entries of each row that are complete: floor((t + 1) / ratio).
const std::vector<int64_t>& VisibleEntries(Run& run, int64_t ratio) {
  std::vector<int64_t>& visible = run.lists.visible;
  visible.clear();
  for (const int64_t t : run.batch.position) visible.push_back((t + 1) / ratio);
  return visible;
}

const tensor::PagedRows* IndexKeys(Run& run, int owner) {
  std::vector<tensor::PagedRows>& keys = run.lists.index;
  keys.clear();
  for (const SequenceRows& s : run.batch.sequences) keys.push_back(run.pool.IndexRows(s.id, owner));
  return ListRows(run, &keys);
}

void ProjectIndexQueries(Run& run, int layer) {
  const IndexerWeights& w = *run.layer(layer).attn.indexer;
  const kernels::Projection query{.weight = w.wq_b, .out_bf16 = run.ws.index_q};
  run.ops().linear({.stream = run.stream(),
                    .rows = run.rows(),
                    .in = run.config().q_lora_rank,
                    .x = run.ws.q_low_quantised,
                    .projections = {&query, 1}});
  const kernels::Projection weight{.weight = w.weights_proj, .out_bf16 = run.ws.index_weight};
  run.ops().linear({.stream = run.stream(),
                    .rows = run.rows(),
                    .in = run.config().hidden_size,
                    .x = run.ws.normed,
                    .projections = {&weight, 1}});
}

// The candidate sets as the host sees them.
struct HostCandidates {
  explicit HostCandidates(const Run& run)
      : blocks(run, run.ws.candidates.blocks,
               run.rows() * run.ws.candidates.capacity * static_cast<int64_t>(sizeof(int32_t))),
        count(run, run.ws.candidates.count, run.rows() * static_cast<int64_t>(sizeof(int64_t))),
        sets(run.ws.candidates) {
    sets.blocks = blocks.as<int32_t>();
    sets.count = count.as<int64_t>();
  }
  HostView blocks, count;
  kernels::CandidateSets sets;
};

std::vector<uint8_t> PoolMask(const Run& run, const kernels::CandidateSets& sets,
                              const std::vector<int64_t>& visible, int64_t entries) {
  std::vector<uint8_t> mask(static_cast<size_t>(run.rows() * entries), 0);
  for (int64_t r = 0; r < run.rows(); ++r) {
    uint8_t* row = mask.data() + r * entries;
    const int64_t limit = visible[static_cast<size_t>(r)];
    if (sets.count[r] < 0) std::fill_n(row, limit, uint8_t{1});
    for (int64_t i = 0; i < sets.count[r]; ++i) {
      const int64_t begin = sets.blocks[r * sets.capacity + i] * sets.block_size;
      std::fill(row + begin, row + std::min(begin + sets.block_size, limit), uint8_t{1});
    }
  }
  return mask;
}

// Blocks of which any entry is set; the inverse of PoolMask.
void TakeMask(const Run& run, const std::vector<uint8_t>& mask, int64_t entries,
              HostCandidates* candidates) {
  kernels::CandidateSets& sets = candidates->sets;
  for (int64_t r = 0; r < run.rows(); ++r) {
    sets.count[r] = 0;
    for (int64_t begin = 0; begin < entries; begin += sets.block_size) {
      const uint8_t* first = mask.data() + r * entries + begin;
      const uint8_t* last = first + std::min(sets.block_size, entries - begin);
      if (std::find(first, last, uint8_t{1}) == last || sets.count[r] == sets.capacity) continue;
      sets.blocks[r * sets.capacity + sets.count[r]++] =
          static_cast<int32_t>(begin / sets.block_size);
    }
  }
  candidates->blocks.Store();
  candidates->count.Store();
}

void ObserveCandidates(Run& run, int layer, const std::vector<int64_t>& visible) {
  if (run.probe == nullptr || !run.probe->Wants(layer, point::kCandidates)) return;
  const int64_t entries = *std::max_element(visible.begin(), visible.end());
  HostCandidates candidates(run);
  const std::vector<uint8_t> made = PoolMask(run, candidates.sets, visible, entries);
  std::vector<uint8_t> mask = made;
  ObserveHost(run, layer, point::kCandidates, mask.data(), {run.rows(), entries});
  if (mask != made) TakeMask(run, mask, entries, &candidates);
}

}  // namespace

void Select(Run& run, int layer) {
  const checkpoint::Config& c = run.config();
  const checkpoint::LayerPlan& plan = run.plan(layer);
  const int owner = run.parts.owner_of_layer[static_cast<size_t>(layer)];
  ProjectIndexQueries(run, layer);
  const std::vector<int64_t>& visible = VisibleEntries(run, plan.ratio);
  run.ops().index_select(
      {.stream = run.stream(),
       .rows = run.rows(),
       .heads = c.index_n_heads,
       .width = c.index_head_dim,
       .topk = c.index_topk,
       .query = run.ws.index_q,
       .head_weight = run.ws.index_weight,
       .weight_scale = static_cast<float>(
           1.0 / std::sqrt(static_cast<double>(c.index_head_dim * c.index_n_heads))),
       .rotation = run.listed.compressed,
       .query_format = run.pool.geometry().index_format,
       .keys = IndexKeys(run, owner),
       .row_sequence = run.listed.row_sequence,
       .visible = run.List(visible),
       .most_visible = run.most_tokens / plan.ratio,
       .restrict_to = plan.uses_candidates ? &run.ws.candidates : nullptr,
       .make_candidates = plan.makes_candidates ? &run.ws.candidates : nullptr,
       .selection = run.ws.selection});
  Observe(run, layer, point::kIndexQ, run.ws.index_q,
          {run.rows(), c.index_n_heads, c.index_head_dim});
  Observe(run, layer, point::kIndexW, run.ws.index_weight, {run.rows(), c.index_n_heads});
  if (plan.makes_candidates) ObserveCandidates(run, layer, visible);
  Observe(run, layer, point::kIndexSel, run.ws.selection, {run.rows(), c.index_topk});
}

}  // namespace thalweg::model
