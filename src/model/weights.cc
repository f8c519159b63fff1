#include "model/weights.h"

#include <fmt/format.h>

#include <string>

namespace thalweg::model {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Config;
using checkpoint::LayerPlan;
using kernels::WeightFormat;
using tensor::DType;

// Reads tensors below one name prefix.
class Binder {
 public:
  Binder(const Checkpoint& checkpoint, std::string prefix)
      : checkpoint_(checkpoint), prefix_(std::move(prefix)) {}

  Binder Below(std::string_view name) const {
    return Binder(checkpoint_, fmt::format("{}{}.", prefix_, name));
  }

  tensor::View View(std::string_view name) const {
    return checkpoint_.Get(prefix_ + std::string(name));
  }

  const BF16* Bf16(std::string_view name) const { return Typed<BF16>(name, DType::kBF16); }
  const float* F32(std::string_view name) const { return Typed<float>(name, DType::kF32); }

  // `name`.weight, with `name`.scale where the format has one.
  Matrix Weight(std::string_view name) const {
    const tensor::View view = View(fmt::format("{}.weight", name));
    Matrix m{FormatOf(view.dtype), view.data, nullptr, view.shape[0], view.shape[1]};
    if (m.format == WeightFormat::kFp4) m.cols *= 2;
    if (m.format == WeightFormat::kFp8 || m.format == WeightFormat::kFp4) {
      m.scales = View(fmt::format("{}.scale", name)).as<uint8_t>();
    }
    return m;
  }

  // A small table promoted to fp32: releases store it as bf16 or fp32.
  std::vector<float> Promoted(std::string_view name) const {
    const tensor::View view = View(name);
    std::vector<float> out(static_cast<size_t>(view.shape.elements()));
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = view.dtype == DType::kF32 ? view.as<float>()[i] : ToFloat(view.as<BF16>()[i]);
    }
    return out;
  }

 private:
  template <typename T>
  const T* Typed(std::string_view name, DType type) const {
    const tensor::View view = View(name);
    TW_CHECK(view.dtype == type);
    return view.as<T>();
  }

  const Checkpoint& checkpoint_;
  std::string prefix_;
};

HyperWeights BindHyper(const Binder& b, std::string_view site) {
  return {b.F32(fmt::format("hc_{}_fn", site)), b.F32(fmt::format("hc_{}_base", site)),
          b.F32(fmt::format("hc_{}_scale", site))};
}

CompressorWeights BindCompressor(const Binder& attn, int ratio) {
  CompressorWeights w;
  w.wkv = attn.Weight("compressor.wkv");
  if (ratio == 2) w.wgate = attn.Weight("compressor.wgate");
  w.norm = attn.Bf16("compressor.norm.weight");
  w.index_wk = attn.Weight("indexer.wk");
  w.index_k_norm = attn.Bf16("indexer.k_norm.weight");
  return w;
}

AttentionWeights BindAttention(const Binder& b, const LayerPlan& plan) {
  AttentionWeights w;
  w.wq_a = b.Weight("wq_a");
  w.q_norm = b.Bf16("q_norm.weight");
  w.wq_b = b.Weight("wq_b");
  w.wkv = b.Weight("wkv");
  w.kv_norm = b.Bf16("kv_norm.weight");
  w.wo_a = b.Weight("wo_a");
  w.wo_a.inputs = kernels::Inputs::kPlain;
  w.wo_b = b.Weight("wo_b");
  w.sink = b.F32("attn_sink");
  if (plan.owns_kv) w.compressor = BindCompressor(b, plan.ratio);
  if (plan.owns_index)
    w.indexer = IndexerWeights{b.Weight("indexer.wq_b"), b.Weight("indexer.weights_proj")};
  return w;
}

FeedForward BindFeedForward(const Binder& b) {
  return {b.Weight("w1"), b.Weight("w3"), b.Weight("w2")};
}

MoeWeights BindMoe(const Binder& b, int64_t experts) {
  MoeWeights w;
  w.gate = b.Weight("gate");
  w.bias = b.F32("gate.bias");
  w.image_bias = b.F32("gate.bias_vl");
  for (int64_t e = 0; e < experts; ++e)
    w.experts.push_back(BindFeedForward(b.Below(fmt::format("experts.{}", e))));
  w.shared = BindFeedForward(b.Below("shared_experts"));
  return w;
}

EngramWeights BindEngram(const Binder& b) {
  EngramWeights w;
  w.codes = b.View("embed.weight").as<uint8_t>();
  w.scales = b.View("embed.scale").as<uint8_t>();
  w.wkv = b.Weight("wkv");
  w.promoted_q = b.Promoted("q_weight");
  w.promoted_k = b.Promoted("k_weight");
  w.q_weight = w.promoted_q.data();
  w.k_weight = w.promoted_k.data();
  return w;
}

LayerWeights BindLayer(const Binder& b, const Config& config, const LayerPlan& plan) {
  LayerWeights w;
  w.attn_norm = b.Bf16("attn_norm.weight");
  w.ffn_norm = b.Bf16("ffn_norm.weight");
  w.hc_attn = BindHyper(b, "attn");
  w.hc_ffn = BindHyper(b, "ffn");
  w.attn = BindAttention(b.Below("attn"), plan);
  w.ffn = BindMoe(b.Below("ffn"), config.Experts(plan.draft));
  if (plan.engram) w.engram = BindEngram(b.Below("engram"));
  return w;
}

DraftHeadWeights BindDraftHead(const Binder& root, int64_t stages) {
  const Binder first = root.Below("mtp.0");
  const Binder last = root.Below(fmt::format("mtp.{}", stages - 1));
  DraftHeadWeights w;
  w.main_proj = first.Weight("main_proj");
  w.main_norm = first.Bf16("main_norm.weight");
  w.norm = last.Bf16("norm.weight");
  w.markov_embed = last.Bf16("markov_head.embed.weight");
  w.markov_head = last.Weight("markov_head.head");
  w.confidence = last.Weight("confidence_head.proj");
  return w;
}

}  // namespace

WeightFormat FormatOf(DType type) {
  switch (type) {
    case DType::kBF16: return WeightFormat::kBF16;
    case DType::kF32: return WeightFormat::kF32;
    case DType::kF8E4M3: return WeightFormat::kFp8;
    default: TW_CHECK(type == DType::kI8); return WeightFormat::kFp4;
  }
}

Result<Weights> BindWeights(const Checkpoint& checkpoint) {
  const Config& config = checkpoint.config();
  const checkpoint::LoadFilter& filter = checkpoint.filter();
  if (filter.expert_begin > 0 || filter.expert_end < config.n_routed_experts) {
    return base::Unsupported(
        "the forward needs all experts: open the checkpoint without an expert range");
  }
  if (config.HasEngram() && !filter.engram) {
    return base::Unsupported("the forward needs the Engram tables: open the checkpoint with them");
  }
  const Binder root(checkpoint, "");
  Weights w;
  w.embed = root.Bf16("embed.weight");
  w.norm = root.Bf16("norm.weight");
  w.head = root.Weight("head");
  const bool draft = config.HasDraft() && filter.draft;
  const std::vector<LayerPlan> plans = checkpoint::PlanLayers(config);
  for (int64_t i = 0; i < static_cast<int64_t>(plans.size()); ++i) {
    const LayerPlan& plan = plans[static_cast<size_t>(i)];
    if (plan.draft && !draft) break;
    const std::string name = plan.draft ? fmt::format("mtp.{}", i - config.num_hidden_layers)
                                        : fmt::format("layers.{}", i);
    w.layers.push_back(BindLayer(root.Below(name), config, plan));
  }
  if (draft) w.draft = BindDraftHead(root, config.num_nextn_predict_layers);
  return w;
}

}  // namespace thalweg::model
