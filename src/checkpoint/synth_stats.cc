#include "checkpoint/synth_stats.h"

#include <cmath>
#include <string>

namespace thalweg::checkpoint {
namespace {

enum class Unit {
  kAbsolute,  // deviation as it is
  kFanIn,     // a multiple of columns^-0.5
};

struct Row {
  std::string_view suffix;
  double mean;
  double deviation;
  Unit unit;
};

// The first row whose suffix fits decides; so longer names come before the names they end in.
constexpr Row kRows[] = {
    // Norms: published means, deviation 10 %.
    {"attn_norm.weight", 0.025, 0.0025, Unit::kAbsolute},
    {"ffn_norm.weight", 0.2, 0.02, Unit::kAbsolute},
    {"q_norm.weight", 0.97, 0.097, Unit::kAbsolute},
    {"kv_norm.weight", 0.4, 0.04, Unit::kAbsolute},
    {"compressor.norm.weight", 0.6, 0.06, Unit::kAbsolute},
    {"k_norm.weight", 0.5, 0.05, Unit::kAbsolute},
    {"norm.weight", 1.0, 0.1, Unit::kAbsolute},
    {"norm1.weight", 1.0, 0.1, Unit::kAbsolute},
    {"norm2.weight", 1.0, 0.1, Unit::kAbsolute},
    // Vision and aligner.
    {"patch_embed.proj.weight", 0, 1.3, Unit::kFanIn},
    {"attn.wqkv.weight", 0, 1.3, Unit::kFanIn},
    {"attn.wo.weight", 0, 1.0, Unit::kFanIn},
    {"mlp.w1.weight", 0, 1.3, Unit::kFanIn},
    {"mlp.w2.weight", 0, 1.0, Unit::kFanIn},
    {"aligner.w1.weight", 0, 1.3, Unit::kFanIn},
    {"aligner.w2.weight", 0, 0.12, Unit::kFanIn},
    // Router biases before the general rule for biases.
    {"gate.bias", 0, 0.1, Unit::kAbsolute},
    {"gate.bias_vl", 0, 0.1, Unit::kAbsolute},
    {".bias", 0, 0.1, Unit::kAbsolute},
    {"image_start", 0, 0.12, Unit::kAbsolute},
    {"image_end", 0, 0.12, Unit::kAbsolute},
    {"image_newline", 0, 0.12, Unit::kAbsolute},
    // Engram, draft heads.
    {"engram.embed.weight", 0, 0.12, Unit::kAbsolute},
    {"engram.wkv.weight", 0, 1.0, Unit::kFanIn},
    {"engram.q_weight", 1.0, 0.3, Unit::kAbsolute},
    {"engram.k_weight", 1.0, 0.3, Unit::kAbsolute},
    {"markov_head.embed.weight", 0, 1.0, Unit::kAbsolute},
    {"markov_head.head.weight", 0, 1.0, Unit::kFanIn},
    {"main_proj.weight", 0, 1.6, Unit::kFanIn},
    {"confidence_head.proj.weight", 0, 1.0, Unit::kFanIn},
    // Embedding: published. Head: logits with a deviation of about 3.
    {"embed.weight", 0, 0.12, Unit::kAbsolute},
    {"head.weight", 0, 3.0, Unit::kFanIn},
    // Attention: published for the projections.
    {"wq_a.weight", 0, 1.6, Unit::kFanIn},
    {"wq_b.weight", 0, 0.95, Unit::kFanIn},
    {"wkv.weight", 0, 1.8, Unit::kFanIn},
    {"wo_a.weight", 0, 1.6, Unit::kFanIn},
    {"wo_b.weight", 0, 1.9, Unit::kFanIn},
    {"wgate.weight", 0, 1.3, Unit::kFanIn},
    {"indexer.wk.weight", 0, 1.3, Unit::kFanIn},
    {"weights_proj.weight", 0, 1.0, Unit::kFanIn},
    {"attn_sink", 0.5, 1.0, Unit::kAbsolute},
    // Experts and router: published.
    {"gate.weight", 0, 2.9, Unit::kFanIn},
    {"w1.weight", 0, 1.5, Unit::kFanIn},
    {"w3.weight", 0, 1.5, Unit::kFanIn},
    {"w2.weight", 0, 1.05, Unit::kFanIn},
    // Hyper-connections.
    {"hc_attn_fn", 0, 1.0, Unit::kFanIn},
    {"hc_ffn_fn", 0, 1.0, Unit::kFanIn},
    {"_base", 0.4, 1.0, Unit::kAbsolute},
    {"_scale", 0.8, 0.2, Unit::kAbsolute},
};

constexpr std::string_view kScale = ".scale";

std::string WeightName(std::string_view name) {
  if (!name.ends_with(kScale)) return std::string(name);
  return std::string(name.substr(0, name.size() - kScale.size())) + ".weight";
}

}  // namespace

int64_t LogicalColumns(const ExpectedTensor& tensor) {
  const int64_t columns = tensor.shape[tensor.shape.rank() - 1];
  if (tensor.dtype == tensor::DType::kF8E8M0) return columns * 32;
  return tensor.dtype == tensor::DType::kI8 ? columns * 2 : columns;
}

Distribution DistributionOf(const ExpectedTensor& tensor) {
  const std::string name = WeightName(tensor.name);
  for (const Row& row : kRows) {
    if (!name.ends_with(row.suffix)) continue;
    const double unit = row.unit == Unit::kAbsolute
                            ? 1.0
                            : 1 / std::sqrt(static_cast<double>(LogicalColumns(tensor)));
    return {row.mean, row.deviation * unit};
  }
  base::CheckFailed(__FILE__, __LINE__, "a row of the table fits", tensor.name);
}

}  // namespace thalweg::checkpoint
