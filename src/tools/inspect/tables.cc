#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/inspect/report.h"

namespace thalweg::tools {
namespace {

using checkpoint::Config;
using checkpoint::LayerPlan;

constexpr double kGiB = 1 << 30;
constexpr double kMiB = 1 << 20;

double InGiB(double bytes) { return bytes / kGiB; }

std::string Summary(const Config& c) {
  std::string out;
  out += fmt::format(
      "DeepSeek-V4.1 (deepseek_v41): {} layers ({} encoder, {} decoder), {} draft "
      "stages, {} vision blocks\n",
      c.num_hidden_layers, c.DecoderBegin(), c.num_hidden_layers - c.DecoderBegin(),
      c.num_nextn_predict_layers, c.vision.num_hidden_layers);
  out += fmt::format(
      "hidden {}, heads {} x {}, {} residual streams, {} experts of {}, top {}, "
      "vocabulary {}, context {}\n",
      c.hidden_size, c.num_attention_heads, c.head_dim, c.hc_mult, c.n_routed_experts,
      c.moe_intermediate_size, c.num_experts_per_tok, c.vocab_size, c.max_position_embeddings);
  return out;
}

std::string Half(const LayerPlan& plan) {
  if (plan.draft) return "draft";
  return plan.decoder ? "decoder" : "encoder";
}

std::string LayerOrDash(int layer) { return layer < 0 ? "-" : std::to_string(layer); }

// What a layer stores or makes, in the words of the layer table (spec/model.md 1.3).
std::string Owns(const LayerPlan& plan) {
  std::vector<std::string> parts = {"window KV"};
  if (plan.owns_kv) parts.push_back(fmt::format("compressor({})", plan.ratio));
  if (plan.owns_kv) parts.push_back("index keys");
  if (plan.owns_index) parts.push_back("index queries");
  if (plan.makes_candidates) parts.push_back("candidate pool");
  if (plan.engram) parts.push_back("Engram at entry");
  if (plan.tap_index >= 0) parts.push_back("draft tap");
  return fmt::format("{}", fmt::join(parts, " + "));
}

// A layer's line but for its number; neighbours with the same line are joined.
std::string LayerLine(const LayerPlan& plan) {
  return fmt::format("{:<8} {:>5}  {:<8} {:>8} {:>9}  {}", Half(plan), plan.ratio,
                     checkpoint::LayerModeName(plan.mode), LayerOrDash(plan.kv_owner),
                     LayerOrDash(plan.index_source), Owns(plan));
}

std::string LayerTable(const std::vector<LayerPlan>& layers) {
  std::string out = fmt::format("\n{:<8} {:<8} {:>5}  {:<8} {:>8} {:>9}  {}\n", "layers", "half",
                                "ratio", "mode", "KV of", "index of", "owns");
  for (size_t begin = 0; begin < layers.size();) {
    const std::string line = LayerLine(layers[begin]);
    size_t end = begin + 1;
    while (end < layers.size() && LayerLine(layers[end]) == line) ++end;
    const std::string ids =
        end == begin + 1 ? std::to_string(begin) : fmt::format("{}-{}", begin, end - 1);
    out += fmt::format("{:<8} {}\n", ids, line);
    begin = end;
  }
  return out;
}

std::string Inventory(const InspectReport& report) {
  std::string out =
      fmt::format("\n{:<24} {:>9} {:>18} {:>10}\n", "tensors", "count", "bytes", "GiB");
  int64_t tensors = 0;
  int64_t bytes = 0;
  const auto line = [&](std::string_view name, int64_t count, int64_t size) {
    out += fmt::format("{:<24} {:>9} {:>18} {:>10.2f}\n", name, count, size,
                       InGiB(static_cast<double>(size)));
  };
  for (const checkpoint::CategoryTotal& total : report.inventory) {
    line(checkpoint::CategoryName(total.category), total.tensors, total.bytes);
    tensors += total.tensors;
    bytes += total.bytes;
  }
  line("total", tensors, bytes);
  return out;
}

std::string Active(const Config& config) {
  const checkpoint::ActiveParameters active = checkpoint::CountActiveParameters(config);
  return fmt::format("\nactive parameters per token: prefill {:.2f} B, decode {:.2f} B\n",
                     static_cast<double>(active.prefill) * 1e-9,
                     static_cast<double>(active.decode) * 1e-9);
}

// What the cpu backend adds when it lays weights out anew at load, on one rank.
std::string Repacked(const RepackedBytes& bytes) {
  std::string out;
  if (bytes.exact > 0)
    out += fmt::format("{:<24} {:>10.2f}\n", "repacked, exact",
                       InGiB(static_cast<double>(bytes.exact)));
  if (bytes.fast > 0)
    out +=
        fmt::format("{:<24} {:>10.2f}\n", "repacked, fast", InGiB(static_cast<double>(bytes.fast)));
  return out;
}

// Weights of one rank when routed experts are spread evenly and the Engram tables stay on the host.
std::string WeightPlan(const InspectReport& report) {
  double experts = 0;
  double engram = 0;
  double rest = 0;
  for (const checkpoint::CategoryTotal& total : report.inventory) {
    double& part = total.category == checkpoint::Category::kExpert   ? experts
                   : total.category == checkpoint::Category::kEngram ? engram
                                                                     : rest;
    part += static_cast<double>(total.bytes);
  }
  std::string out =
      fmt::format("\n{:<24} {:>10} {:>10} {:>10} {:>10}\n", "weights (GiB) on ranks", 1, 2, 4, 8);
  out += fmt::format("{:<24} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}\n", "each, without Engram",
                     InGiB(rest + experts), InGiB(rest + experts / 2), InGiB(rest + experts / 4),
                     InGiB(rest + experts / 8));
  out += Repacked(report.repacked);
  if (engram == 0) return out;
  return out + fmt::format("{:<24} {:>10.2f}\n", "Engram, once per host", InGiB(engram));
}

// Bytes of one sequence at a few context lengths.
std::string MemoryPlan(const Config& config) {
  const double per_token = checkpoint::KvBytesPerToken(config);
  const auto window = static_cast<double>(checkpoint::WindowBytesPerSequence(config));
  std::string out =
      fmt::format("\nglobal KV {} bytes per token, window KV {:.2f} MiB per sequence\n", per_token,
                  window / kMiB);
  out += fmt::format("{:<24} {:>18} {:>10}\n", "memory of a sequence", "bytes", "GiB");
  int64_t previous = 0;
  for (const int64_t tokens : {int64_t{4096}, int64_t{32768}, int64_t{131072}, int64_t{1048576}}) {
    const int64_t length = std::min(tokens, config.max_position_embeddings);
    if (length == previous) break;
    previous = length;
    const double bytes = per_token * static_cast<double>(length) + window;
    out += fmt::format("{:<24} {:>18.0f} {:>10.3f}\n", fmt::format("{} tokens", length), bytes,
                       InGiB(bytes));
  }
  return out;
}

std::string EngramTables(const InspectReport& report) {
  std::string out;
  for (size_t i = 0; i < report.engram.size(); ++i) {
    const checkpoint::EngramTable& table = report.engram[i];
    out +=
        fmt::format("{}Engram layer {}: {} rows in {} tables from prime {}; multipliers {}\n",
                    i == 0 ? "\n" : "", report.config.engram_layer_ids[i], table.rows,
                    table.primes.size(), table.primes.front(), fmt::join(table.multipliers, " "));
  }
  return out;
}

std::string Checked(const InspectReport& report) {
  if (!report.checked) return "";
  std::string out = fmt::format("\ncheck: {} tensors as expected, {} bytes\n",
                                report.checked->tensors, report.checked->bytes);
  if (!report.config.HasEngram()) return out;
  return out + fmt::format(
                   "check: Engram primes, sums and multipliers as expected; token map of {} "
                   "ids onto {}\n",
                   report.checked->mapped_tokens, report.checked->distinct_tokens);
}

}  // namespace

std::string ReportTables(const InspectReport& report) {
  return Summary(report.config) + LayerTable(report.layers) + Inventory(report) +
         Active(report.config) + WeightPlan(report) + MemoryPlan(report.config) +
         EngramTables(report) + Checked(report);
}

}  // namespace thalweg::tools
