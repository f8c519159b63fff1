#include "sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/mapped_file.h"
#include "base/rng.h"
#include "sim/json_fields.h"
#include "sim/limits.h"

namespace thalweg::sim {
namespace {

using base::Json;

constexpr std::string_view kFormat = "thalweg cluster";
constexpr int64_t kZipfLayers = 4;
constexpr double kZipfRows = 1e9;

Result<JsonFields> OpenMember(const JsonFields& parent, std::string_view name,
                              std::initializer_list<std::string_view> known) {
  TW_ASSIGN(const Json* member, parent.Member(name));
  return JsonFields::Open(*member, parent.PathOf(name), known);
}

Status ReadModel(const JsonFields& root, ModelShape* model) {
  TW_ASSIGN(const JsonFields fields,
            OpenMember(root, "model", {"hidden", "experts", "topk", "kv_bytes"}));
  TW_ASSIGN(model->hidden, fields.Integer("hidden", 1, kMostWidth));
  TW_ASSIGN(model->experts, fields.Integer("experts", 1, kMostExperts));
  TW_ASSIGN(model->topk, fields.Integer("topk", 1, std::min(kMostTopk, model->experts)));
  TW_ASSIGN(model->kv_bytes, fields.Real("kv_bytes", 0, 1e9));
  return {};
}

Status ReadLink(const JsonFields& root, std::string_view name, Link* link) {
  TW_ASSIGN(const JsonFields fields, OpenMember(root, name, {"latency_us", "gb_per_s"}));
  TW_ASSIGN(link->latency_us, fields.Real("latency_us", 0, kMostMicroseconds));
  TW_ASSIGN(link->gb_per_s, fields.Real("gb_per_s", 1e-6, kMostGbPerSecond));
  return {};
}

Status ReadRouting(const JsonFields& root, ClusterFile* file) {
  TW_ASSIGN(const JsonFields fields, OpenMember(root, "routing", {"counts", "zipf", "spare"}));
  Cluster& cluster = file->cluster;
  TW_ASSIGN(cluster.spare, fields.Integer("spare", 0, kMostExperts));
  if (fields.Has("counts") == fields.Has("zipf"))
    return base::InvalidArgument("routing must have one of counts and zipf");
  if (fields.Has("counts")) {
    TW_ASSIGN(file->counts, fields.Text("counts"));
    return {};
  }
  TW_ASSIGN(const double s, fields.Real("zipf", 0, 4));
  cluster.counts = ZipfCounts(kZipfLayers, cluster.model.experts, s);
  return {};
}

Status ReadDecodeLoad(const JsonFields& root, DecodeLoad* load) {
  if (!root.Has("decode")) return {};
  TW_ASSIGN(const JsonFields fields, OpenMember(root, "decode",
                                                {"ranks", "batches", "context", "rows_per_sequence",
                                                 "tokens_per_step", "draft_us"}));
  TW_ASSIGN(load->ranks, fields.Integer("ranks", 1, kMostRanks));
  TW_ASSIGN(load->batches, fields.Integers("batches", 1, kMostRows, kMostFigures));
  TW_ASSIGN(load->context, fields.Real("context", 0, static_cast<double>(kMostTokens)));
  if (fields.Has("rows_per_sequence")) {
    TW_ASSIGN(load->rows_per_sequence, fields.Integer("rows_per_sequence", 1, 64));
  }
  const auto most = static_cast<double>(load->rows_per_sequence);
  if (fields.Has("tokens_per_step")) {
    TW_ASSIGN(load->tokens_per_step, fields.Real("tokens_per_step", 1, most));
  }
  if (fields.Has("draft_us")) {
    TW_ASSIGN(load->draft_us, fields.Real("draft_us", 0, kMostMicroseconds));
  }
  return {};
}

Status ReadPrefillLoad(const JsonFields& root, PrefillLoad* load) {
  if (!root.Has("prefill")) return {};
  TW_ASSIGN(const JsonFields fields,
            OpenMember(root, "prefill", {"ranks", "prompts", "step_rows"}));
  TW_ASSIGN(load->ranks, fields.Integer("ranks", 1, kMostRanks));
  TW_ASSIGN(load->prompts, fields.Integers("prompts", 1, kMostTokens, kMostFigures));
  TW_ASSIGN(load->step_rows, fields.Integer("step_rows", 1, kMostRows));
  for (const int64_t prompt : load->prompts) {
    if (prompt / load->step_rows > kMostSteps)
      return base::OutOfRange(fmt::format("prefill: a prompt of {} takes more than {} steps of {}",
                                          prompt, kMostSteps, load->step_rows));
  }
  return {};
}

Result<ClusterFile> FromJson(const Json& json) {
  TW_ASSIGN(const JsonFields root,
            JsonFields::Open(json, "cluster",
                             {"format", "version", "model", "costs", "routing", "node_ranks",
                              "in_node", "between_nodes", "overlap", "decode", "prefill"}));
  TW_TRY(root.CheckFormat(kFormat));
  ClusterFile file;
  Cluster& c = file.cluster;
  TW_TRY(ReadModel(root, &c.model));
  TW_ASSIGN(file.costs, root.Text("costs"));
  TW_TRY(ReadRouting(root, &file));
  TW_ASSIGN(c.node_ranks, root.Integer("node_ranks", 1, kMostRanks));
  TW_TRY(ReadLink(root, "in_node", &c.in_node));
  TW_TRY(ReadLink(root, "between_nodes", &c.between_nodes));
  TW_ASSIGN(c.overlap, root.Real("overlap", 0, 1));
  TW_TRY(ReadDecodeLoad(root, &c.decode));
  TW_TRY(ReadPrefillLoad(root, &c.prefill));
  TW_TRY(CheckLoads(c));
  return file;
}

Status CheckCounts(const Cluster& c) {
  if (c.counts.layers.empty())
    return base::InvalidArgument("routing.counts: no layer has been counted");
  if (c.counts.experts == c.model.experts) return {};
  return base::InvalidArgument(fmt::format("routing.counts: {} experts, but model.experts is {}",
                                           c.counts.experts, c.model.experts));
}

}  // namespace

Status CheckLoads(const Cluster& c) {
  const int64_t ranks = std::max(c.decode.ranks, c.prefill.ranks);
  if (ranks > c.model.experts)
    return base::InvalidArgument(
        fmt::format("{} ranks are more than {} experts", ranks, c.model.experts));
  for (const int64_t batch : c.decode.batches) {
    if (batch <= kMostRows / c.decode.ranks / c.decode.rows_per_sequence) continue;
    return base::OutOfRange(fmt::format("decode: a batch of {} on {} ranks has more than {} rows",
                                        batch, c.decode.ranks, kMostRows));
  }
  if (!c.decode.batches.empty() || !c.prefill.prompts.empty()) return {};
  return base::InvalidArgument("neither decode nor prefill is asked for");
}

Result<ClusterFile> ParseCluster(std::string_view text, std::string_view what) {
  TW_ASSIGN(const Json json, base::ParseJson(text, what));
  Result<ClusterFile> file = FromJson(json);
  if (!file.ok()) return file.status().WithContext(what);
  return file;
}

Result<Cluster> ReadCluster(const std::filesystem::path& path) {
  TW_ASSIGN(const std::string text, base::ReadFile(path, kMaxFileBytes));
  TW_ASSIGN(ClusterFile file, ParseCluster(text, path.string()));
  TW_ASSIGN(file.cluster.costs, ReadCosts(path.parent_path() / file.costs));
  if (!file.counts.empty()) {
    TW_ASSIGN(file.cluster.counts, parallel::ReadCounts(path.parent_path() / file.counts));
  }
  TW_TRY(CheckCounts(file.cluster));
  if (!file.cluster.prefill.prompts.empty() && file.cluster.costs.prefill.layers == 0)
    return base::InvalidArgument(
        fmt::format("{} asks for prefill, but {} has no costs of it", path.string(), file.costs));
  return std::move(file.cluster);
}

parallel::ExpertCounts ZipfCounts(int64_t layers, int64_t experts, double s) {
  parallel::ExpertCounts counts = parallel::NoCounts(layers, experts);
  for (size_t layer = 0; layer < counts.layers.size(); ++layer) {
    std::vector<int64_t>& row = counts.layers[layer];
    std::vector<size_t> order(row.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (size_t i = order.size(); i > 1; --i) {
      const uint32_t word = base::Philox4x32(
          {static_cast<uint32_t>(i), static_cast<uint32_t>(layer), 0, 0}, {71, 0})[0];
      std::swap(order[i - 1], order[word % i]);
    }
    for (size_t i = 0; i < row.size(); ++i)
      row[order[i]] = std::llround(kZipfRows * std::pow(static_cast<double>(i + 1), -s));
  }
  counts.rows = std::llround(kZipfRows);
  return counts;
}

}  // namespace thalweg::sim
