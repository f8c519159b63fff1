#include "checkpoint/config_fields.h"

#include <fmt/format.h>

#include "checkpoint/limits.h"

namespace thalweg::checkpoint {
namespace {

using enum FieldGroup;

// An accessor of one member; a macro because the member's path is a token, not a value.
#define TW_MEMBER(path) \
  [](Config & c) -> auto& { return c.path; }

constexpr IntField kIntFields[] = {
    {kTop, "bos_token_id", TW_MEMBER(bos_token_id), 0, kMaxVocab - 1},
    {kTop, "eos_token_id", TW_MEMBER(eos_token_id), 0, kMaxVocab - 1},
    {kTop, "pad_token_id", TW_MEMBER(pad_token_id), 0, kMaxVocab - 1},
    {kTop, "image_token_id", TW_MEMBER(image_token_id), 0, kMaxVocab - 1},
    {kText, "vocab_size", TW_MEMBER(vocab_size), 1, kMaxVocab},
    {kText, "hidden_size", TW_MEMBER(hidden_size), 32, kMaxHidden},
    {kText, "moe_intermediate_size", TW_MEMBER(moe_intermediate_size), 32, kMaxHidden},
    {kText, "num_hidden_layers", TW_MEMBER(num_hidden_layers), 1, kMaxLayers},
    {kText, "num_attention_heads", TW_MEMBER(num_attention_heads), 1, kMaxHeads},
    {kText, "head_dim", TW_MEMBER(head_dim), 32, kMaxHeadDim},
    {kText, "qk_rope_head_dim", TW_MEMBER(qk_rope_head_dim), 2, kMaxHeadDim},
    {kText, "q_lora_rank", TW_MEMBER(q_lora_rank), 32, kMaxHidden},
    {kText, "o_lora_rank", TW_MEMBER(o_lora_rank), 32, kMaxHidden},
    {kText, "o_groups", TW_MEMBER(o_groups), 1, kMaxHeads},
    {kText, "max_position_embeddings", TW_MEMBER(max_position_embeddings), 1, kMaxPositions},
    {kText, "n_routed_experts", TW_MEMBER(n_routed_experts), 1, kMaxExperts},
    {kText, "n_shared_experts", TW_MEMBER(n_shared_experts), 1, 1},
    {kText, "num_experts_per_tok", TW_MEMBER(num_experts_per_tok), 1, kMaxExperts},
    {kText, "sliding_window", TW_MEMBER(sliding_window), 1, kMaxTopk},
    {kText, "index_n_heads", TW_MEMBER(index_n_heads), 1, kMaxHeads},
    {kText, "index_head_dim", TW_MEMBER(index_head_dim), 32, kMaxHeadDim},
    {kText, "index_topk", TW_MEMBER(index_topk), 1, kMaxTopk},
    {kText, "candidate_source_layer_id", TW_MEMBER(candidate_source_layer_id), 0, kMaxLayers - 1},
    {kText, "candidate_topk_blocks", TW_MEMBER(candidate_topk_blocks), 1, kMaxTopk},
    {kText, "candidate_block_size", TW_MEMBER(candidate_block_size), 1, kMaxTopk},
    {kText, "hc_mult", TW_MEMBER(hc_mult), 1, kMaxStreams},
    {kText, "hc_sinkhorn_iters", TW_MEMBER(hc_sinkhorn_iters), 1, kMaxSinkhorn},
    {kText, "num_nextn_predict_layers", TW_MEMBER(num_nextn_predict_layers), 0, kMaxDraftStages},
    {kRope, "original_max_position_embeddings",
     TW_MEMBER(rope_scaling.original_max_position_embeddings), 1, kMaxPositions},
    {kEngram, "engram_max_ngram_size", TW_MEMBER(engram_max_ngram_size), 2, kMaxNgram},
    {kEngram, "engram_vocab_size", TW_MEMBER(engram_vocab_size), 2, kMaxEngramVocab},
    {kEngram, "engram_n_heads", TW_MEMBER(engram_n_heads), 1, kMaxEngramHeads},
    {kEngram, "engram_head_dim", TW_MEMBER(engram_head_dim), 32, kMaxHeadDim},
    {kEngram, "engram_pad_token_id", TW_MEMBER(engram_pad_token_id), 0, kMaxVocab - 1},
    {kEngram, "engram_compressed_vocab_size", TW_MEMBER(engram_compressed_vocab_size), 1,
     kMaxVocab},
    {kDraft, "dspark_block_size", TW_MEMBER(dspark_block_size), 1, kMaxDraftBlock},
    {kDraft, "dspark_noise_token_id", TW_MEMBER(dspark_noise_token_id), 0, kMaxVocab - 1},
    {kDraft, "dspark_markov_rank", TW_MEMBER(dspark_markov_rank), 1, kMaxHidden},
    {kDraft, "dspark_n_routed_experts", TW_MEMBER(dspark_n_routed_experts), 1, kMaxExperts},
    {kDraft, "dspark_num_experts_per_tok", TW_MEMBER(dspark_num_experts_per_tok), 1, kMaxExperts},
    {kVision, "num_hidden_layers", TW_MEMBER(vision.num_hidden_layers), 1, kMaxLayers},
    {kVision, "hidden_size", TW_MEMBER(vision.hidden_size), 1, kMaxHidden},
    {kVision, "num_attention_heads", TW_MEMBER(vision.num_attention_heads), 1, kMaxHeads},
    {kVision, "intermediate_size", TW_MEMBER(vision.intermediate_size), 1, kMaxHidden},
    {kVision, "patch_size", TW_MEMBER(vision.patch_size), 1, 256},
    {kVision, "downsample_ratio", TW_MEMBER(vision.downsample_ratio), 1, 16},
    {kVision, "max_image_tokens", TW_MEMBER(vision.max_image_tokens), 1, kMaxTopk},
    {kVision, "min_pixels", TW_MEMBER(vision.min_pixels), 1, kMaxPositions},
};

const RealField kRealFields[] = {
    {kText, "swiglu_limit", TW_MEMBER(swiglu_limit), 1e-3, 1e6},
    {kText, "rms_norm_eps", TW_MEMBER(rms_norm_eps), 1e-30, 1e-2},
    {kText, "rope_theta", TW_MEMBER(rope_theta), 2, 1e12},
    {kText, "compress_rope_theta", TW_MEMBER(compress_rope_theta), 2, 1e12},
    {kText, "routed_scaling_factor", TW_MEMBER(routed_scaling_factor), 1e-6, 1e6},
    {kText, "hc_eps", TW_MEMBER(hc_eps), 1e-30, 1e-2},
    {kRope, "factor", TW_MEMBER(rope_scaling.factor), 1, 1e6},
    {kRope, "beta_fast", TW_MEMBER(rope_scaling.beta_fast), 1e-3, 1e6},
    {kRope, "beta_slow", TW_MEMBER(rope_scaling.beta_slow), 1e-3, 1e6},
    {kVision, "rope_theta", TW_MEMBER(vision.rope_theta), 2, 1e12},
};

constexpr ListField kListFields[] = {
    {kText, "compress_ratios", TW_MEMBER(compress_ratios)},
    {kText, "kv_source_layer_ids", TW_MEMBER(kv_source_layer_ids)},
    {kText, "index_source_layer_ids", TW_MEMBER(index_source_layer_ids)},
    {kEngram, "engram_layer_ids", TW_MEMBER(engram_layer_ids)},
    {kEngram, "engram_num_embeddings", TW_MEMBER(engram_num_embeddings)},
    {kDraft, "dspark_target_layer_ids", TW_MEMBER(dspark_target_layer_ids)},
};

#undef TW_MEMBER

constexpr const char* kOnlyModel = "this engine runs DeepSeek-V4.1-Flash checkpoints";
constexpr const char* kOnlyBlocks =
    "weights are read in the released FP8 32x32 and FP4 1x32 blocks";
constexpr const char* kOnlyRouting = "the router has one scoring rule (spec/model.md 2.6)";
constexpr const char* kNoLeftover = "DeepSeek-V4.1 has no such mechanism";

std::vector<FixedField> MakeFixedFields() {
  using base::Json;
  return {
      {"", "model_type", "deepseek_v41", true, true, kOnlyModel},
      {"", "dtype", "bfloat16", false, true, "activations are bf16"},
      {"", "tie_word_embeddings", false, false, true, "embedding and head are two tensors"},
      {"quantization_config", "quant_method", "fp8", true, true, kOnlyBlocks},
      {"quantization_config", "activation_scheme", "dynamic", false, true, kOnlyBlocks},
      {"quantization_config", "weight_block_size", Json::array({32, 32}), true, true, kOnlyBlocks},
      {"quantization_config", "scale_fmt", "ue8m0", true, true, kOnlyBlocks},
      {"quantization_config", "expert_dtype", "fp4", true, true, kOnlyBlocks},
      {"text_config", "model_type", "deepseek_v41_text", false, true, kOnlyModel},
      {"text_config", "num_key_value_heads", 1, false, true, "K and V are one shared head"},
      {"text_config", "hidden_act", "silu", false, true, "experts use SwiGLU"},
      {"text_config", "attention_bias", false, false, true, "projections have no bias"},
      {"text_config", "tie_word_embeddings", false, false, true, "the head is its own tensor"},
      {"text_config", "scoring_func", "sqrtsoftplus", true, true, kOnlyRouting},
      {"text_config", "topk_method", "noaux_tc", false, true, kOnlyRouting},
      {"text_config", "norm_topk_prob", true, false, true, kOnlyRouting},
      {"text_config", "gate_temp", 1.0, false, false, kOnlyRouting},
      {"text_config", "n_group", 1, false, false, kNoLeftover},
      {"text_config", "topk_group", 1, false, false, kNoLeftover},
      {"text_config", "num_hash_layers", 0, false, false, kNoLeftover},
      {"text_config.rope_scaling", "rope_type", "yarn", true, true, "long contexts use YaRN"},
      {"vision_config", "model_type", "deepseek_v41_vision", false, true, kOnlyModel},
  };
}

}  // namespace

bool GroupPresent(FieldGroup group, const Config& config) {
  switch (group) {
    case kEngram: return config.HasEngram();
    case kDraft: return config.HasDraft();
    case kVision: return config.HasVision();
    default: return true;
  }
}

std::string_view GroupSection(FieldGroup group) {
  switch (group) {
    case kTop: return "";
    case kRope: return "text_config.rope_scaling";
    case kVision: return "vision_config";
    default: return "text_config";
  }
}

std::string FieldPath(FieldGroup group, std::string_view name) {
  const std::string_view section = GroupSection(group);
  return section.empty() ? std::string(name) : fmt::format("{}.{}", section, name);
}

std::span<const IntField> IntFields() { return kIntFields; }
std::span<const RealField> RealFields() { return kRealFields; }
std::span<const ListField> ListFields() { return kListFields; }

std::span<const FixedField> FixedFields() {
  static const std::vector<FixedField> fields = MakeFixedFields();
  return fields;
}

}  // namespace thalweg::checkpoint
