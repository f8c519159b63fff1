#include "base/json.h"

#include "tools/inspect/report.h"

namespace thalweg::tools {
namespace {

using base::Json;

Json LayerOrNull(int layer) { return layer < 0 ? Json(nullptr) : Json(layer); }

Json Layers(const InspectReport& report) {
  Json layers = Json::array();
  for (size_t i = 0; i < report.layers.size(); ++i) {
    const checkpoint::LayerPlan& plan = report.layers[i];
    layers.push_back({{"layer", i},
                      {"half", plan.draft     ? "draft"
                               : plan.decoder ? "decoder"
                                              : "encoder"},
                      {"ratio", plan.ratio},
                      {"mode", checkpoint::LayerModeName(plan.mode)},
                      {"kv_owner", LayerOrNull(plan.kv_owner)},
                      {"index_source", LayerOrNull(plan.index_source)},
                      {"makes_candidates", plan.makes_candidates},
                      {"uses_candidates", plan.uses_candidates},
                      {"engram", plan.engram},
                      {"tap", LayerOrNull(plan.tap_index)}});
  }
  return layers;
}

Json Inventory(const InspectReport& report) {
  Json categories = Json::array();
  int64_t tensors = 0;
  int64_t bytes = 0;
  for (const checkpoint::CategoryTotal& total : report.inventory) {
    categories.push_back({{"category", checkpoint::CategoryName(total.category)},
                          {"tensors", total.tensors},
                          {"bytes", total.bytes}});
    tensors += total.tensors;
    bytes += total.bytes;
  }
  return {{"tensors", tensors}, {"bytes", bytes}, {"categories", std::move(categories)}};
}

Json Engram(const InspectReport& report) {
  Json tables = Json::array();
  for (size_t i = 0; i < report.engram.size(); ++i) {
    tables.push_back({{"layer", report.config.engram_layer_ids[i]},
                      {"rows", report.engram[i].rows},
                      {"primes", report.engram[i].primes},
                      {"multipliers", report.engram[i].multipliers}});
  }
  return tables;
}

Json Checked(const InspectReport& report) {
  if (!report.checked) return nullptr;
  return {{"tensors", report.checked->tensors},
          {"bytes", report.checked->bytes},
          {"token_map_ids", report.checked->mapped_tokens},
          {"token_map_distinct", report.checked->distinct_tokens}};
}

}  // namespace

std::string ReportJson(const InspectReport& report) {
  const checkpoint::Config& config = report.config;
  const checkpoint::ActiveParameters active = checkpoint::CountActiveParameters(config);
  const Json root = {
      {"model_type", "deepseek_v41"},
      {"num_hidden_layers", config.num_hidden_layers},
      {"decoder_begin", config.DecoderBegin()},
      {"layers", Layers(report)},
      {"inventory", Inventory(report)},
      {"active_parameters", {{"prefill", active.prefill}, {"decode", active.decode}}},
      {"repacked_bytes", {{"exact", report.repacked.exact}, {"fast", report.repacked.fast}}},
      {"kv_bytes_per_token", checkpoint::KvBytesPerToken(config)},
      {"window_bytes_per_sequence", checkpoint::WindowBytesPerSequence(config)},
      {"engram", Engram(report)},
      {"check", Checked(report)}};
  return root.dump(2) + "\n";
}

}  // namespace thalweg::tools
