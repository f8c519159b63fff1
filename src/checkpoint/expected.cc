#include "checkpoint/expected.h"

#include <fmt/format.h>

namespace thalweg::checkpoint {
namespace {

using tensor::DType;
using tensor::Shape;

// Builds the list in order; `prefix_` and `category_` are those of the part being listed.
class Lister {
 public:
  explicit Lister(const Config& config) : c_(config) {}

  std::vector<ExpectedTensor> Run() {
    Globals();
    const std::vector<LayerPlan> plans = PlanLayers(c_);
    int layer = 0;
    int stage = 0;
    for (const LayerPlan& plan : plans) {
      Layer(plan,
            plan.draft ? fmt::format("mtp.{}.", stage++) : fmt::format("layers.{}.", layer++));
    }
    if (c_.HasVision()) Vision();
    return std::move(list_);
  }

 private:
  ExpectedTensor& Add(std::string_view name, DType dtype, Shape shape) {
    ExpectedTensor tensor;
    tensor.name = prefix_ + std::string(name);
    tensor.dtype = dtype;
    tensor.shape = shape;
    tensor.category = draft_ ? Category::kDraft : category_;
    tensor.draft = draft_;
    list_.push_back(std::move(tensor));
    return list_.back();
  }

  // A norm or gate weight: the release stores BF16, converters also F32.
  void Norm(std::string_view name, Shape shape) {
    Add(name, DType::kBF16, shape).bf16_or_f32 = true;
  }

  // FP8 [rows, columns] with one scale per 32x32 tile.
  void Fp8(const std::string& name, int64_t rows, int64_t columns) {
    Add(name + ".weight", DType::kF8E4M3, {rows, columns});
    Add(name + ".scale", DType::kF8E8M0, {rows / 32, columns / 32});
  }

  // Packed FP4 [rows, columns / 2] with one scale per 32 columns of a row.
  void Fp4(const std::string& name, int32_t expert, int64_t rows, int64_t columns) {
    Expert(Add(name + ".weight", DType::kI8, {rows, columns / 2}), expert);
    Expert(Add(name + ".scale", DType::kF8E8M0, {rows, columns / 32}), expert);
  }

  static void Expert(ExpectedTensor& tensor, int32_t expert) {
    tensor.expert = expert;
    tensor.category = Category::kExpert;
  }

  void Globals() {
    category_ = Category::kGlobal;
    Add("embed.weight", DType::kBF16, {c_.vocab_size, c_.hidden_size});
    Norm("norm.weight", {c_.hidden_size});
    Add("head.weight", DType::kBF16, {c_.vocab_size, c_.hidden_size});
  }

  void Layer(const LayerPlan& plan, std::string prefix) {
    prefix_ = std::move(prefix);
    draft_ = plan.draft;
    Attention();
    if (plan.owns_kv) Compressor(plan.ratio);
    if (plan.owns_index) IndexQueries();
    RouterNormHc();
    SharedExpert();
    Experts();
    if (plan.engram) Engram(plan.engram_index);
    if (plan.draft) DraftHeads();
  }

  void Attention() {
    category_ = Category::kAttention;
    const int64_t heads = c_.num_attention_heads * c_.head_dim;
    Fp8("attn.wq_a", c_.q_lora_rank, c_.hidden_size);
    Norm("attn.q_norm.weight", {c_.q_lora_rank});
    Fp8("attn.wq_b", heads, c_.q_lora_rank);
    Fp8("attn.wkv", c_.head_dim, c_.hidden_size);
    Norm("attn.kv_norm.weight", {c_.head_dim});
    Fp8("attn.wo_a", c_.o_groups * c_.o_lora_rank, heads / c_.o_groups);
    Fp8("attn.wo_b", c_.hidden_size, c_.o_groups * c_.o_lora_rank);
    Add("attn.attn_sink", DType::kF32, {c_.num_attention_heads});
  }

  void Compressor(int ratio) {
    Add("attn.compressor.wkv.weight", DType::kBF16, {c_.head_dim, c_.hidden_size});
    if (ratio > 1) {
      Add("attn.compressor.wgate.weight", DType::kBF16, {c_.head_dim, c_.hidden_size});
    }
    Norm("attn.compressor.norm.weight", {c_.head_dim});
    Add("attn.indexer.wk.weight", DType::kBF16, {c_.index_head_dim, c_.head_dim});
    Norm("attn.indexer.k_norm.weight", {c_.index_head_dim});
  }

  void IndexQueries() {
    Fp8("attn.indexer.wq_b", c_.index_n_heads * c_.index_head_dim, c_.q_lora_rank);
    Add("attn.indexer.weights_proj.weight", DType::kBF16, {c_.index_n_heads, c_.hidden_size});
  }

  void RouterNormHc() {
    category_ = Category::kRouterNormHc;
    const int64_t experts = c_.Experts(draft_);
    Norm("attn_norm.weight", {c_.hidden_size});
    Norm("ffn_norm.weight", {c_.hidden_size});
    Add("ffn.gate.weight", DType::kBF16, {experts, c_.hidden_size});
    Add("ffn.gate.bias", DType::kF32, {experts});
    Add("ffn.gate.bias_vl", DType::kF32, {experts});
    for (const std::string site : {"hc_attn", "hc_ffn"}) {
      Add(site + "_fn", DType::kF32, {c_.HcCoefficients(), c_.hc_mult * c_.hidden_size});
      Add(site + "_base", DType::kF32, {c_.HcCoefficients()});
      Add(site + "_scale", DType::kF32, {3});
    }
  }

  void SharedExpert() {
    category_ = Category::kSharedExpert;
    Fp8("ffn.shared_experts.w1", c_.moe_intermediate_size, c_.hidden_size);
    Fp8("ffn.shared_experts.w2", c_.hidden_size, c_.moe_intermediate_size);
    Fp8("ffn.shared_experts.w3", c_.moe_intermediate_size, c_.hidden_size);
  }

  void Experts() {
    for (int32_t expert = 0; expert < c_.Experts(draft_); ++expert) {
      const std::string name = fmt::format("ffn.experts.{}.", expert);
      Fp4(name + "w1", expert, c_.moe_intermediate_size, c_.hidden_size);
      Fp4(name + "w2", expert, c_.hidden_size, c_.moe_intermediate_size);
      Fp4(name + "w3", expert, c_.moe_intermediate_size, c_.hidden_size);
    }
  }

  // The table's scales are per row, not per tile: one per 32 channels.
  void Engram(int index) {
    category_ = Category::kEngram;
    const int64_t rows = c_.engram_num_embeddings[static_cast<size_t>(index)];
    Add("engram.embed.weight", DType::kF8E4M3, {rows, c_.engram_head_dim});
    Add("engram.embed.scale", DType::kF8E8M0, {rows, c_.engram_head_dim / 32});
    Fp8("engram.wkv", (c_.hc_mult + 1) * c_.hidden_size, c_.EngramColumns() * c_.engram_head_dim);
    Norm("engram.q_weight", {c_.hc_mult, c_.hidden_size});
    Norm("engram.k_weight", {c_.hc_mult, c_.hidden_size});
  }

  // The first stage reads the taps, the last one holds the heads; they may be the same stage.
  void DraftHeads() {
    const int64_t rank = c_.dspark_markov_rank;
    if (prefix_ == "mtp.0.") {
      const auto taps = static_cast<int64_t>(c_.dspark_target_layer_ids.size());
      Fp8("main_proj", c_.hidden_size, taps * c_.hidden_size);
      Norm("main_norm.weight", {c_.hidden_size});
    }
    if (prefix_ != fmt::format("mtp.{}.", c_.num_nextn_predict_layers - 1)) return;
    Norm("norm.weight", {c_.hidden_size});
    Add("markov_head.embed.weight", DType::kBF16, {c_.vocab_size, rank});
    Add("markov_head.head.weight", DType::kBF16, {c_.vocab_size, rank});
    Add("confidence_head.proj.weight", DType::kBF16, {1, c_.hidden_size + rank});
  }

  void Vision() {
    draft_ = false;
    prefix_.clear();
    category_ = Category::kVision;
    const VisionConfig& v = c_.vision;
    const int64_t merged = v.hidden_size * v.downsample_ratio * v.downsample_ratio;
    Norm("vision.patch_embed.proj.weight", {v.hidden_size, 3 * v.patch_size * v.patch_size});
    Norm("vision.patch_embed.proj.bias", {v.hidden_size});
    for (int64_t block = 0; block < v.num_hidden_layers; ++block) VisionBlock(block);
    Norm("vision.norm.weight", {v.hidden_size});
    Norm("aligner.w1.weight", {c_.hidden_size, merged});
    Norm("aligner.w1.bias", {c_.hidden_size});
    Norm("aligner.w2.weight", {c_.hidden_size, c_.hidden_size});
    Norm("aligner.w2.bias", {c_.hidden_size});
    for (const char* name : {"image_start", "image_end", "image_newline"}) {
      Norm(name, {c_.hidden_size});
    }
  }

  void VisionBlock(int64_t block) {
    const VisionConfig& v = c_.vision;
    const std::string name = fmt::format("vision.blocks.{}.", block);
    Norm(name + "norm1.weight", {v.hidden_size});
    Norm(name + "norm2.weight", {v.hidden_size});
    Norm(name + "attn.wqkv.weight", {3 * v.hidden_size, v.hidden_size});
    Norm(name + "attn.wqkv.bias", {3 * v.hidden_size});
    Norm(name + "attn.wo.weight", {v.hidden_size, v.hidden_size});
    Norm(name + "attn.wo.bias", {v.hidden_size});
    Norm(name + "mlp.w1.weight", {2 * v.intermediate_size, v.hidden_size});
    Norm(name + "mlp.w2.weight", {v.hidden_size, v.intermediate_size});
  }

  const Config& c_;
  std::vector<ExpectedTensor> list_;
  std::string prefix_;
  Category category_ = Category::kGlobal;
  bool draft_ = false;
};

}  // namespace

std::string_view CategoryName(Category category) {
  switch (category) {
    case Category::kGlobal: return "embedding, norm, head";
    case Category::kAttention: return "attention";
    case Category::kExpert: return "routed experts";
    case Category::kSharedExpert: return "shared experts";
    case Category::kRouterNormHc: return "router, norms, mHC";
    case Category::kEngram: return "Engram";
    case Category::kDraft: return "draft (dense)";
    case Category::kVision: return "vision, aligner";
  }
  return "?";
}

bool ExpectedTensor::Allows(tensor::DType type) const {
  return type == dtype || (bf16_or_f32 && (type == DType::kBF16 || type == DType::kF32));
}

std::vector<ExpectedTensor> ExpectedTensors(const Config& config) { return Lister(config).Run(); }

}  // namespace thalweg::checkpoint
