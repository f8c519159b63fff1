// The transients of one step, allocated once for the largest step: the memory plan of the forward.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "checkpoint/config.h"
#include "kernels/ops.h"
#include "tensor/buffer.h"

namespace thalweg::model {

using tensor::BF16;

// Bytes of a Workspace of this size.
int64_t WorkspaceBytes(const checkpoint::Config& config, int64_t max_rows,
                       int64_t window_row_bytes);

struct Workspace {
  Workspace(const checkpoint::Config& config, int64_t max_rows, int64_t window_row_bytes,
            const tensor::Memory& memory);

  int64_t max_rows = 0;

  // Residual state, carried from layer to layer. n = hc_mult.
  BF16* streams = nullptr;    // [rows, n, hidden]
  float* pre_mix = nullptr;   // [rows, n], used by the next sublayer
  float* pre_next = nullptr;  // [rows, n], being made
  float* post = nullptr;      // [rows, n]
  float* comb = nullptr;      // [rows, n, n]

  // One sublayer.
  BF16* normed = nullptr;            // [rows, hidden]
  BF16* normed_quantised = nullptr;  // [rows, hidden]
  BF16* update = nullptr;            // [rows, hidden], the sublayer's output

  // Attention.
  BF16* q_low = nullptr;            // [rows, q_lora_rank]
  BF16* q_low_quantised = nullptr;  // [rows, q_lora_rank]
  BF16* q = nullptr;                // [rows, heads, head_dim]
  BF16* kv = nullptr;               // [rows, head_dim]
  uint8_t* window_chunk = nullptr;  // [rows, window row bytes]
  BF16* heads_out = nullptr;        // [rows, heads, head_dim]
  BF16* o_low = nullptr;            // [rows, o_groups * o_lora_rank]

  // Compressor and index.
  float* group_kv = nullptr;          // [rows, head_dim], ratio 2
  float* group_score = nullptr;       // [rows, head_dim], ratio 2
  BF16* group_kv_bf16 = nullptr;      // [rows, head_dim], ratio 1
  BF16* latent = nullptr;             // [rows, head_dim]
  BF16* index_k = nullptr;            // [rows, index_head_dim]
  BF16* index_q = nullptr;            // [rows, index heads, index_head_dim]
  BF16* index_weight = nullptr;       // [rows, index heads]
  int32_t* selection = nullptr;       // [rows, index_topk], of the newest index source
  kernels::CandidateSets candidates;  // of the candidate source

  // Mixture of experts.
  int32_t* experts = nullptr;       // [rows, topk]
  float* expert_weights = nullptr;  // [rows, topk]

  // Engram.
  int64_t* engram_rows = nullptr;  // [tables, max_rows, columns], where the backend hashes
  BF16* engram_z = nullptr;        // [rows, columns * engram_head_dim]
  BF16* engram_kv = nullptr;       // [rows, (n + 1) * hidden]

  // Draft taps: concatenated stream means of the target layers.
  BF16* taps = nullptr;                // [rows, taps * hidden]
  BF16* taps_quantised = nullptr;      // [rows, taps * hidden]
  float* confidence = nullptr;         // [rows], of one draft slot
  int32_t* draft_selection = nullptr;  // [rows, block]: every row of its block

  std::byte* move_scratch = nullptr;  // the widest row that is moved, for every row

  // Moves the residual state, taps included, of `count` kept rows to the front, in order.
  void Compact(const int64_t* kept, int64_t count, const checkpoint::Config& config,
               const kernels::Ops& ops, const tensor::Stream& stream);
  // Calls visit(values of a row, the first row) for each part of it.
  template <typename Visit>
  void EachResidual(const checkpoint::Config& config, const Visit& visit) const {
    const int64_t n = config.hc_mult, hidden = config.hidden_size;
    const auto taps_width = static_cast<int64_t>(config.dspark_target_layer_ids.size()) * hidden;
    visit(n * hidden, streams);
    for (float* values : {pre_mix, pre_next, post}) visit(n, values);
    visit(n * n, comb);
    for (BF16* values : {normed, normed_quantised}) visit(hidden, values);
    for (BF16* values : {taps, taps_quantised}) visit(taps_width, values);
  }
  // A step: where the residual state begins must not depend on the steps before.
  void Begin() {
    if (pre_next < pre_mix) SwapPreMix();
  }
  void SwapPreMix() { std::swap(pre_mix, pre_next); }
  int64_t bytes() const { return arena_.capacity_bytes(); }

 private:
  friend int64_t WorkspaceBytes(const checkpoint::Config&, int64_t, int64_t);
  Workspace() = default;  // nothing allocated: what WorkspaceBytes measures
  tensor::Arena arena_;
};

}  // namespace thalweg::model
