// The tensors of a checkpoint, bound by name to the fields the forward reads (spec/model.md 3.2).
// Matrices stay in the mapped file in their stored formats.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "kernels/weights.h"
#include "tensor/formats.h"

namespace thalweg::model {

using kernels::FeedForward;
using kernels::Matrix;
using tensor::BF16;

// Coefficients of one hyper-connection site; n = hc_mult.
struct HyperWeights {
  const float* fn = nullptr;     // [2 n + n^2, n * hidden]
  const float* base = nullptr;   // [2 n + n^2]
  const float* scale = nullptr;  // [3]
};

struct CompressorWeights {
  Matrix wkv;                          // [head_dim, hidden]
  Matrix wgate;                        // [head_dim, hidden]; ratio 2 only
  const BF16* norm = nullptr;          // [head_dim]
  Matrix index_wk;                     // [index_head_dim, head_dim]
  const BF16* index_k_norm = nullptr;  // [index_head_dim]
};

struct IndexerWeights {
  Matrix wq_b;          // [index_n_heads * index_head_dim, q_lora_rank]
  Matrix weights_proj;  // [index_n_heads, hidden]
};

struct AttentionWeights {
  Matrix wq_a;                    // [q_lora_rank, hidden]
  const BF16* q_norm = nullptr;   // [q_lora_rank]
  Matrix wq_b;                    // [heads * head_dim, q_lora_rank]
  Matrix wkv;                     // [head_dim, hidden]
  const BF16* kv_norm = nullptr;  // [head_dim]
  Matrix wo_a;                    // [o_groups * o_lora_rank, heads * head_dim / o_groups]
  Matrix wo_b;                    // [hidden, o_groups * o_lora_rank]
  const float* sink = nullptr;    // [heads]
  std::optional<CompressorWeights> compressor;
  std::optional<IndexerWeights> indexer;
};

struct MoeWeights {
  Matrix gate;                        // [experts, hidden]
  const float* bias = nullptr;        // [experts]
  const float* image_bias = nullptr;  // [experts]
  std::vector<FeedForward> experts;
  FeedForward shared;
};

struct EngramWeights {
  const uint8_t* codes = nullptr;   // e4m3 [table rows, engram_head_dim]
  const uint8_t* scales = nullptr;  // e8m0 [table rows, engram_head_dim / 32]
  Matrix wkv;                       // [(n + 1) * hidden, columns * engram_head_dim]
  const float* q_weight = nullptr;  // [n, hidden], promoted to fp32
  const float* k_weight = nullptr;  // [n, hidden]
  std::vector<float> promoted_q;    // where the two are on the host
  std::vector<float> promoted_k;
};

struct LayerWeights {
  const BF16* attn_norm = nullptr;  // [hidden]
  const BF16* ffn_norm = nullptr;   // [hidden]
  HyperWeights hc_attn;
  HyperWeights hc_ffn;
  AttentionWeights attn;
  MoeWeights ffn;
  std::optional<EngramWeights> engram;
};

// What the draft module has beside its stages (spec/model.md 2.8).
struct DraftHeadWeights {
  Matrix main_proj;                    // [hidden, taps * hidden]
  const BF16* main_norm = nullptr;     // [hidden]
  const BF16* norm = nullptr;          // [hidden]
  const BF16* markov_embed = nullptr;  // [vocab, rank]
  Matrix markov_head;                  // [vocab, rank]
  Matrix confidence;                   // [1, hidden + rank]
};

struct Weights {
  const BF16* embed = nullptr;       // [vocab, hidden]
  const BF16* norm = nullptr;        // [hidden]
  Matrix head;                       // [vocab, hidden]
  std::vector<LayerWeights> layers;  // target layers, then draft stages
  std::optional<DraftHeadWeights> draft;
};

// How a matrix of this storage type is encoded; fp4 is stored as bytes of two values.
kernels::WeightFormat FormatOf(tensor::DType type);

// Binds every tensor of the target, and of the drafter when the checkpoint's filter kept it. The
// weights point into the checkpoint, which must outlive them and must hold all experts and the
// Engram tables.
Result<Weights> BindWeights(const checkpoint::Checkpoint& checkpoint);

}  // namespace thalweg::model
