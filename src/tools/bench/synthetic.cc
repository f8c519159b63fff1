#include "tools/bench/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tools/bench/weights.h"

namespace thalweg::tools::bench {
namespace {

using kernels::Matrix;
using kernels::WeightFormat;
using model::LayerWeights;

constexpr int64_t kMostEmbeddings = 4096;
constexpr int64_t kReindexEvery = 2;  // of 4 in the release: few layers should have one

// The released mix: an encoder of one window-only layer and one owner of ratio 2 with the layers
// that reuse its selection, a decoder that begins with the owner of ratio 1.
void SetLayers(int64_t layers, checkpoint::Config* c) {
  const int64_t encoder = layers / 2;
  c->num_hidden_layers = layers;
  c->compress_ratios.assign(static_cast<size_t>(layers), 1);
  std::fill_n(c->compress_ratios.begin(), encoder, 2);
  if (encoder > 1) c->compress_ratios[0] = 0;
  c->kv_source_layer_ids.clear();
  if (encoder > 0) c->kv_source_layer_ids.push_back(encoder > 1 ? 1 : 0);
  c->kv_source_layer_ids.push_back(encoder);
  c->index_source_layer_ids = c->kv_source_layer_ids;
  for (int64_t i = encoder + kReindexEvery; i < layers; i += kReindexEvery) {
    c->index_source_layer_ids.push_back(i);
  }
  c->candidate_source_layer_id = encoder;
  c->compress_ratios.insert(c->compress_ratios.end(),
                            static_cast<size_t>(c->num_nextn_predict_layers), 0);
}

// Drafts are of any token, and the noise is one.
void KeepDraft(int64_t layers, checkpoint::Config* c) {
  const auto taps = static_cast<int64_t>(c->dspark_target_layer_ids.size());
  c->dspark_target_layer_ids.clear();
  for (int64_t i = std::max<int64_t>(0, layers - taps); i < layers; ++i)
    c->dspark_target_layer_ids.push_back(i);
}

void DropDraft(checkpoint::Config* c) {
  c->num_nextn_predict_layers = 0;
  c->dspark_block_size = 0;
  c->dspark_target_layer_ids.clear();
}

void DropOtherParts(checkpoint::Config* c) {
  const checkpoint::Config none;
  c->engram_layer_ids.clear();
  c->engram_num_embeddings.clear();
  c->engram_max_ngram_size = none.engram_max_ngram_size;
  c->vision = none.vision;
}

// Stored bytes of everything but the routed experts, and of one of them in every layer.
struct Sizes {
  int64_t dense = 0;
  int64_t expert_of_all_layers = 0;
};

Sizes SizesOf(const checkpoint::Config& c) {
  Sizes sizes;
  const int64_t expert =
      StoredBytes(WeightFormat::kFp4, 3 * c.moe_intermediate_size, c.hidden_size);
  sizes.expert_of_all_layers = expert * c.num_hidden_layers;
  sizes.dense += expert * c.num_nextn_predict_layers * c.dspark_n_routed_experts;
  for (const checkpoint::ExpectedTensor& tensor : checkpoint::ExpectedTensors(c)) {
    if (tensor.expert < 0 && tensor.name != "embed.weight") sizes.dense += tensor.bytes();
  }
  sizes.dense += SyntheticTokens(c) * c.hidden_size * 2;
  return sizes;
}

const float* Constant(int64_t count, float value, Memory* memory) {
  return memory->Uniform(count, value, value);
}

// Makes the weights of one layer after another.
class Maker {
 public:
  Maker(const checkpoint::Config& config, const kernels::Ops& ops, const tensor::Stream& stream,
        Memory* memory)
      : c_(config), memory_(*memory), weights_(ops, stream, memory) {}

  LayerWeights Layer(const checkpoint::LayerPlan& plan) {
    LayerWeights w;
    w.attn_norm = Norm(c_.hidden_size);
    w.ffn_norm = Norm(c_.hidden_size);
    w.hc_attn = Hyper();
    w.hc_ffn = Hyper();
    w.attn = Attention(plan);
    w.ffn = Moe(c_.Experts(plan.draft));
    return w;
  }

  model::DraftHeadWeights DraftHeads() {
    const auto taps = static_cast<int64_t>(c_.dspark_target_layer_ids.size());
    return {.main_proj = Fp8(c_.hidden_size, taps * c_.hidden_size),
            .main_norm = Norm(c_.hidden_size),
            .norm = Norm(c_.hidden_size),
            .markov_embed = memory_.ActivationBF16(c_.vocab_size * c_.dspark_markov_rank),
            .markov_head = Bf16(c_.vocab_size, c_.dspark_markov_rank),
            .confidence = Bf16(1, c_.hidden_size + c_.dspark_markov_rank)};
  }

  Matrix Fp8(int64_t out, int64_t in) { return weights_.Make(WeightFormat::kFp8, out, in); }
  Matrix Bf16(int64_t out, int64_t in) { return weights_.Make(WeightFormat::kBF16, out, in); }

  const BF16* Norm(int64_t width) { return memory_.Ones(width); }

 private:
  model::HyperWeights Hyper() {
    const int64_t n = c_.HcCoefficients();
    return {memory_.Uniform(n * c_.hc_mult * c_.hidden_size, -0.02f, 0.02f),
            memory_.Uniform(n, -1, 1), Constant(3, 0.5f, &memory_)};
  }

  model::AttentionWeights Attention(const checkpoint::LayerPlan& plan) {
    const int64_t heads = c_.num_attention_heads * c_.head_dim;
    model::AttentionWeights w;
    w.wq_a = Fp8(c_.q_lora_rank, c_.hidden_size);
    w.q_norm = Norm(c_.q_lora_rank);
    w.wq_b = Fp8(heads, c_.q_lora_rank);
    w.wkv = Fp8(c_.head_dim, c_.hidden_size);
    w.kv_norm = Norm(c_.head_dim);
    w.wo_a = weights_.Make(WeightFormat::kFp8, c_.o_groups * c_.o_lora_rank, heads / c_.o_groups,
                           kernels::Inputs::kPlain);
    w.wo_b = Fp8(c_.hidden_size, c_.o_groups * c_.o_lora_rank);
    w.sink = Constant(c_.num_attention_heads, 0.0f, &memory_);
    if (plan.owns_kv) w.compressor = Compressor(plan.ratio);
    if (plan.owns_index) {
      w.indexer = model::IndexerWeights{Fp8(c_.index_n_heads * c_.index_head_dim, c_.q_lora_rank),
                                        Bf16(c_.index_n_heads, c_.hidden_size)};
    }
    return w;
  }

  model::CompressorWeights Compressor(int ratio) {
    model::CompressorWeights w;
    w.wkv = Bf16(c_.head_dim, c_.hidden_size);
    if (ratio == 2) w.wgate = Bf16(c_.head_dim, c_.hidden_size);
    w.norm = Norm(c_.head_dim);
    w.index_wk = Bf16(c_.index_head_dim, c_.head_dim);
    w.index_k_norm = Norm(c_.index_head_dim);
    return w;
  }

  model::MoeWeights Moe(int64_t experts) {
    model::MoeWeights w;
    w.gate = Bf16(experts, c_.hidden_size);
    w.bias = Constant(experts, 0.0f, &memory_);
    w.image_bias = w.bias;
    for (int64_t e = 0; e < experts; ++e) {
      w.experts.push_back(
          weights_.MakeFeedForward(WeightFormat::kFp4, c_.hidden_size, c_.moe_intermediate_size));
    }
    w.shared =
        weights_.MakeFeedForward(WeightFormat::kFp8, c_.hidden_size, c_.moe_intermediate_size);
    return w;
  }

  const checkpoint::Config& c_;
  Memory& memory_;
  WeightMaker weights_;
};

// `rows` rows of random values as the cache stores them.
std::vector<uint8_t> RandomRows(tensor::RowFormat format, int64_t width, int64_t rows) {
  Memory memory;
  const BF16* values = memory.ActivationBF16(64 * 64 + width);
  const int64_t bytes = tensor::RowBytes(format, width);
  std::vector<uint8_t> out(static_cast<size_t>(rows * bytes));
  for (int64_t row = 0; row < rows; ++row)
    tensor::EncodeRow(format, values + row % 64 * 64, width, out.data() + row * bytes);
  return out;
}

// Fills the blocks of `tokens` tokens, all alike.
void FillBlocks(model::Model& model, const tensor::PagedRows& rows, int64_t tokens) {
  const kvpool::Pool& pool = model.pool();
  const std::vector<uint8_t> block = RandomRows(rows.format, rows.width, rows.rows_per_block);
  const int64_t blocks = base::CeilDiv(tokens, pool.geometry().block_tokens);
  for (int64_t b = 0; b < blocks; ++b) {
    pool.memory().upload(model.stream(), rows.Row(b * rows.rows_per_block), block.data(),
                         static_cast<int64_t>(block.size()));
  }
}

}  // namespace

Result<SyntheticPlan> PlanSynthetic(const checkpoint::Config& base, int64_t layers, int64_t experts,
                                    int64_t memory_bytes, bool draft) {
  SyntheticPlan plan{.config = base};
  DropOtherParts(&plan.config);
  draft ? KeepDraft(layers, &plan.config) : DropDraft(&plan.config);
  SetLayers(layers, &plan.config);
  const Sizes sizes = SizesOf(plan.config);
  const int64_t fit = (memory_bytes - sizes.dense) / sizes.expert_of_all_layers;
  const int64_t least = base.num_experts_per_tok;
  const int64_t wanted = experts > 0 ? experts : std::min(fit, base.n_routed_experts);
  if (wanted < least || wanted > fit) {
    return base::ResourceExhausted(fmt::format(
        "{} layers of {} experts do not fit: {} MiB may be used, which is enough for {} experts a "
        "layer (at least {} are needed); ask for fewer --layers or --experts",
        layers, std::max(wanted, least), memory_bytes >> 20, std::max<int64_t>(0, fit), least));
  }
  plan.config.n_routed_experts = wanted;
  plan.weight_bytes = sizes.dense + wanted * sizes.expert_of_all_layers;
  TW_TRY(checkpoint::Validate(plan.config));
  return plan;
}

int64_t SyntheticTokens(const checkpoint::Config& config) {
  return config.HasDraft() ? config.vocab_size : std::min(kMostEmbeddings, config.vocab_size);
}

model::Weights MakeSyntheticWeights(const checkpoint::Config& config, const kernels::Ops& ops,
                                    const tensor::Stream& stream, Memory* memory) {
  Maker maker(config, ops, stream, memory);
  model::Weights w;
  w.embed = memory->ActivationBF16(SyntheticTokens(config) * config.hidden_size);
  w.norm = maker.Norm(config.hidden_size);
  w.head = maker.Bf16(config.vocab_size, config.hidden_size);
  for (const checkpoint::LayerPlan& plan : checkpoint::PlanLayers(config)) {
    w.layers.push_back(maker.Layer(plan));
  }
  if (config.HasDraft()) w.draft = maker.DraftHeads();
  return w;
}

Result<kvpool::SequenceId> OpenFilled(model::Model& model, int64_t tokens, int64_t more) {
  kvpool::Pool& pool = model.pool();
  const kvpool::Geometry& g = pool.geometry();
  TW_ASSIGN(const kvpool::SequenceId id, pool.Open());
  TW_TRY(pool.Reserve(id, tokens + more));
  pool.Commit(id, tokens);
  for (int owner = 0; owner < static_cast<int>(g.owners.size()); ++owner) {
    FillBlocks(model, pool.MainRows(id, owner), tokens);
    FillBlocks(model, pool.IndexRows(id, owner), tokens);
  }
  const std::vector<uint8_t> ring = RandomRows(g.window_format, g.window_width, g.RingRows());
  for (int64_t layer = 0; layer < g.window_layers; ++layer) {
    pool.memory().upload(model.stream(), pool.Ring(id, layer), ring.data(),
                         static_cast<int64_t>(ring.size()));
  }
  return id;
}

}  // namespace thalweg::tools::bench
