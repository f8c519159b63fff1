#include <algorithm>

#include "checkpoint/config.h"
#include "tensor/row_format.h"

namespace thalweg::checkpoint {
namespace {

// Position of a value in an ascending list; -1 when it is not there.
int IndexOf(const std::vector<int64_t>& list, int64_t value) {
  const auto at = std::ranges::lower_bound(list, value);
  return at != list.end() && *at == value ? static_cast<int>(at - list.begin()) : -1;
}

// The largest entry <= value; -1 when there is none.
int LastAtOrBefore(const std::vector<int64_t>& list, int64_t value) {
  const auto next = std::ranges::upper_bound(list, value);
  return next == list.begin() ? -1 : static_cast<int>(*(next - 1));
}

LayerMode ModeOf(const LayerPlan& plan) {
  if (plan.ratio == 0) return LayerMode::kWindowOnly;
  if (plan.owns_kv) return LayerMode::kFull;
  return plan.owns_index ? LayerMode::kReindex : LayerMode::kReuse;
}

LayerPlan PlanTargetLayer(const Config& config, int64_t layer) {
  LayerPlan plan;
  plan.ratio = static_cast<int>(config.compress_ratios[static_cast<size_t>(layer)]);
  if (plan.ratio > 0) {
    plan.kv_owner = LastAtOrBefore(config.kv_source_layer_ids, layer);
    plan.index_source = LastAtOrBefore(config.index_source_layer_ids, layer);
    plan.owns_kv = plan.kv_owner == layer;
    plan.owns_index = plan.index_source == layer;
  }
  plan.mode = ModeOf(plan);
  plan.makes_candidates = layer == config.candidate_source_layer_id;
  plan.uses_candidates =
      plan.mode == LayerMode::kReindex && layer > config.candidate_source_layer_id;
  plan.engram_index = IndexOf(config.engram_layer_ids, layer);
  plan.engram = plan.engram_index >= 0;
  if (config.HasDraft()) plan.tap_index = IndexOf(config.dspark_target_layer_ids, layer);
  plan.decoder = layer >= config.DecoderBegin();
  return plan;
}

int64_t AttentionParameters(const Config& c) {
  const int64_t heads = c.num_attention_heads * c.head_dim;
  const int64_t query = c.q_lora_rank * (c.hidden_size + heads);
  const int64_t key = c.head_dim * c.hidden_size;
  const int64_t output = c.o_lora_rank * heads + c.hidden_size * c.o_groups * c.o_lora_rank;
  return query + key + output;
}

// Attention, chosen and shared experts, router and hyper-connections of one layer.
int64_t LayerParameters(const Config& c) {
  const int64_t expert = 3 * c.hidden_size * c.moe_intermediate_size;
  const int64_t experts = (c.num_experts_per_tok + c.n_shared_experts) * expert;
  const int64_t router = c.n_routed_experts * c.hidden_size;
  const int64_t hyper = 2 * c.HcCoefficients() * c.hc_mult * c.hidden_size;
  return AttentionParameters(c) + experts + router + hyper;
}

int64_t EngramParameters(const Config& c) {
  return (c.hc_mult + 1) * c.hidden_size * c.EngramColumns() * c.engram_head_dim;
}

}  // namespace

std::string_view LayerModeName(LayerMode mode) {
  switch (mode) {
    case LayerMode::kWindowOnly: return "window";
    case LayerMode::kFull: return "full";
    case LayerMode::kReindex: return "reindex";
    case LayerMode::kReuse: return "reuse";
  }
  return "?";
}

std::vector<LayerPlan> PlanLayers(const Config& config) {
  std::vector<LayerPlan> plans;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    plans.push_back(PlanTargetLayer(config, layer));
  }
  LayerPlan stage;
  stage.draft = true;
  plans.insert(plans.end(), static_cast<size_t>(config.num_nextn_predict_layers), stage);
  return plans;
}

double KvBytesPerToken(const Config& config) {
  using tensor::RowBytes;
  using tensor::RowFormat;
  const int64_t row = RowBytes(RowFormat::kFp4E4M3, config.head_dim) +
                      RowBytes(RowFormat::kFp4E8M0, config.index_head_dim);
  double bytes = 0;
  for (const int64_t id : config.kv_source_layer_ids) {
    bytes += static_cast<double>(row) /
             static_cast<double>(config.compress_ratios[static_cast<size_t>(id)]);
  }
  return bytes;
}

int64_t WindowBytesPerSequence(const Config& config) {
  const int64_t layers = config.num_hidden_layers + config.num_nextn_predict_layers;
  return layers * config.sliding_window *
         tensor::RowBytes(tensor::RowFormat::kFp8E8M0, config.head_dim);
}

ActiveParameters CountActiveParameters(const Config& config) {
  const int64_t layer = LayerParameters(config);
  ActiveParameters active;
  active.prefill = config.DecoderBegin() * layer;
  active.decode = config.num_hidden_layers * layer + config.vocab_size * config.hidden_size;
  for (const int64_t id : config.engram_layer_ids) {
    if (id < config.DecoderBegin()) active.prefill += EngramParameters(config);
    active.decode += EngramParameters(config);
  }
  return active;
}

}  // namespace thalweg::checkpoint
