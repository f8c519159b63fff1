#include "model/workspace.h"

#include <algorithm>

namespace thalweg::model {
namespace {

using checkpoint::Config;

// Two fp32 vectors of head_dim for each row, in bf16 values: where rows go that nobody reads.
constexpr int64_t kSpareRows = 8;

// Hands out members while adding up their bytes; with no arena it only adds, which sizes the arena.
class Carver {
 public:
  Carver(tensor::Arena* arena, int64_t rows) : arena_(arena), rows_(rows) {}

  template <typename T>
  void Rows(T** member, int64_t per_row) {
    const int64_t count = rows_ * per_row;
    bytes_ = base::RoundUp(bytes_, tensor::kAlignBytes) + count * static_cast<int64_t>(sizeof(T));
    if (arena_ != nullptr) *member = arena_->Take<T>(count);
  }
  int64_t bytes() const { return bytes_; }

 private:
  tensor::Arena* arena_;
  int64_t rows_;
  int64_t bytes_ = 0;
};

void CarveResidual(const Config& c, Workspace* w, Carver* carver) {
  const int64_t n = c.hc_mult;
  carver->Rows(&w->streams, n * c.hidden_size);
  carver->Rows(&w->pre_mix, n);
  carver->Rows(&w->pre_next, n);
  carver->Rows(&w->post, n);
  carver->Rows(&w->comb, n * n);
  carver->Rows(&w->normed, c.hidden_size);
  carver->Rows(&w->normed_quantised, c.hidden_size);
  carver->Rows(&w->update, c.hidden_size);
}

void CarveAttention(const Config& c, int64_t window_row_bytes, Workspace* w, Carver* carver) {
  carver->Rows(&w->q_low, c.q_lora_rank);
  carver->Rows(&w->q_low_quantised, c.q_lora_rank);
  carver->Rows(&w->q, c.num_attention_heads * c.head_dim);
  carver->Rows(&w->kv, c.head_dim);
  carver->Rows(&w->window_chunk, window_row_bytes);
  carver->Rows(&w->heads_out, c.num_attention_heads * c.head_dim);
  carver->Rows(&w->o_low, c.o_groups * c.o_lora_rank);
}

void CarveIndex(const Config& c, Workspace* w, Carver* carver) {
  carver->Rows(&w->group_kv, c.head_dim);
  carver->Rows(&w->group_score, c.head_dim);
  carver->Rows(&w->group_kv_bf16, c.head_dim);
  carver->Rows(&w->latent, c.head_dim);
  carver->Rows(&w->index_k, c.index_head_dim);
  carver->Rows(&w->index_q, c.index_n_heads * c.index_head_dim);
  carver->Rows(&w->index_weight, c.index_n_heads);
  carver->Rows(&w->selection, c.index_topk);
  carver->Rows(&w->candidates.blocks, c.candidate_topk_blocks);
  carver->Rows(&w->candidates.count, 1);
}

void CarveRest(const Config& c, Workspace* w, Carver* carver) {
  const int64_t topk = std::max(c.num_experts_per_tok, c.dspark_num_experts_per_tok);
  const auto taps = static_cast<int64_t>(c.dspark_target_layer_ids.size());
  carver->Rows(&w->experts, topk);
  carver->Rows(&w->expert_weights, topk);
  if (c.HasEngram()) {
    carver->Rows(&w->engram_rows,
                 c.EngramColumns() * static_cast<int64_t>(c.engram_layer_ids.size()));
    carver->Rows(&w->engram_z, c.EngramColumns() * c.engram_head_dim);
    carver->Rows(&w->engram_kv, (c.hc_mult + 1) * c.hidden_size);
  }
  carver->Rows(&w->taps, taps * c.hidden_size);
  carver->Rows(&w->taps_quantised, taps * c.hidden_size);
  carver->Rows(&w->confidence, 1);
  carver->Rows(&w->draft_selection, c.dspark_block_size);
  const int64_t widest =
      std::max({c.hc_mult * c.hidden_size, taps * c.hidden_size, kSpareRows * c.head_dim});
  carver->Rows(&w->move_scratch, widest * static_cast<int64_t>(sizeof(BF16)));
}

void CarveAll(const Config& c, int64_t window_row_bytes, Workspace* w, Carver* carver) {
  CarveResidual(c, w, carver);
  CarveAttention(c, window_row_bytes, w, carver);
  CarveIndex(c, w, carver);
  CarveRest(c, w, carver);
}

}  // namespace

int64_t WorkspaceBytes(const Config& config, int64_t max_rows, int64_t window_row_bytes) {
  Workspace nowhere;
  Carver measure(nullptr, max_rows);
  CarveAll(config, window_row_bytes, &nowhere, &measure);
  return measure.bytes() + tensor::kAlignBytes;
}

Workspace::Workspace(const Config& config, int64_t rows, int64_t window_row_bytes,
                     const tensor::Memory& memory)
    : max_rows(rows), arena_(WorkspaceBytes(config, rows, window_row_bytes), memory) {
  Carver carver(&arena_, rows);
  CarveAll(config, window_row_bytes, this, &carver);
  candidates.capacity = config.candidate_topk_blocks;
  candidates.block_size = config.candidate_block_size;
}

void Workspace::Compact(const int64_t* kept, int64_t count, const Config& config,
                        const kernels::Ops& ops, const tensor::Stream& stream) {
  const auto move = [&](int64_t width, auto* data) {
    ops.compact_rows({.stream = stream,
                      .count = count,
                      .bytes = width * static_cast<int64_t>(sizeof(*data)),
                      .kept = kept,
                      .data = data,
                      .scratch = move_scratch});
  };
  EachResidual(config, move);
}

}  // namespace thalweg::model
