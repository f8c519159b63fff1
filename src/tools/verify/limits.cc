#include "tools/verify/limits.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace thalweg::tools {
namespace {

// Numbers below "limits"; the first that is missing is kept as the error.
class Reader {
 public:
  Reader(const GoldenFolder& golden, bool same_rounding)
      : golden_(golden), kind_(same_rounding ? "same_rounding" : "free") {}

  double Of(std::string_view path) {
    const Result<double> number = golden_.Number(fmt::format("limits/{}", path));
    if (number.ok()) return *number;
    if (status_.ok()) status_ = number.status();
    return 0;
  }
  std::optional<double> Optional(std::string_view path) const {
    const base::Json* value = golden_.Find(fmt::format("limits/{}", path));
    if (value == nullptr || !value->is_number()) return std::nullopt;
    return value->get<double>();
  }
  DenseLimit Dense(std::string_view part) {
    const std::string base = fmt::format("layer_local/{}/{}", kind_, part);
    return {Of(base + "_rel_rms"), Optional(base + "_median_row")};
  }
  std::string_view kind() const { return kind_; }
  Status status() const { return status_; }

 private:
  const GoldenFolder& golden_;
  std::string_view kind_;
  Status status_;
};

// "prompts_up_to_17_tokens_fraction_within_0.02": 0.5
std::optional<ShortPromptLimit> FindShortPrompts(const GoldenFolder& golden,
                                                 std::string_view kind) {
  const base::Json* table = golden.Find(fmt::format("limits/end_to_end/{}", kind));
  if (table == nullptr || !table->is_object()) return std::nullopt;
  for (const auto& [key, value] : table->items()) {
    int tokens = 0;
    double within = 0;
    const int fields =
        std::sscanf(key.c_str(), "prompts_up_to_%d_tokens_fraction_within_%lf", &tokens, &within);
    if (fields == 2 && value.is_number())
      return ShortPromptLimit{tokens, within, value.get<double>()};
  }
  return std::nullopt;
}

void ReadLayerLocal(Reader& read, Limits* out) {
  out->attn_out = read.Dense("attn_out");
  out->moe_out = read.Dense("moe_out");
  out->streams_out = read.Dense("streams_out");
  out->cache_elements =
      read.Of(fmt::format("layer_local/{}/cache_elements_off_by_one_step", read.kind()));
  out->router_gap = read.Of("layer_local/router_gap");
  out->router_weight = read.Of("layer_local/router_weight_abs");
  out->coefficients = read.Of("layer_local/mhc_abs");
}

void ReadEndToEnd(Reader& read, Limits* out) {
  const std::string base = fmt::format("end_to_end/{}/", read.kind());
  out->mean_kl = read.Of(base + "mean_kl");
  out->kl_max = read.Of(base + "kl_max");
  out->argmax_agreement = read.Of(base + "argmax_agreement");
  out->median_logit = read.Optional(base + "median_max_abs_dlogit");
  out->argmax_margin = read.Of(fmt::format("end_to_end/argmax_equal_above_margin/{}", read.kind()));
  out->decode_margin = read.Of(fmt::format("decode/argmax_equal_above_margin/{}", read.kind()));
  out->draft_margin = read.Of(fmt::format("drafts/equal_above_min_margin/{}", read.kind()));
  out->draft_confidence = read.Of(fmt::format("drafts/confidence_abs/{}", read.kind()));
}

}  // namespace

Result<Limits> ReadLimits(const GoldenFolder& golden, bool same_rounding) {
  Reader read(golden, same_rounding);
  Limits out;
  out.same_rounding = same_rounding;
  ReadLayerLocal(read, &out);
  ReadEndToEnd(read, &out);
  out.short_prompts = FindShortPrompts(golden, read.kind());
  TW_TRY(read.status());
  return out;
}

}  // namespace thalweg::tools
