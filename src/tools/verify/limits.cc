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

// A manifest states limits for bf16 operands. An activation in steps of a 127th of the largest of
// 32 is off by up to an eighth of an e4m3 step of that value, but by whole steps of the small ones:
// one cache element in four lands on the neighbouring code, where bf16 moves one in a hundred.
void WidenForInt8(Limits* limits) {
  constexpr double kCacheElements = 0.4;
  constexpr double kCacheSteps = 32;  // the steps of a small element are small
  constexpr double kMedianFactor = 2;
  const auto widen = [](DenseLimit* limit, double factor) {
    limit->relative_rms *= factor;
    if (limit->median_row) *limit->median_row *= factor;
  };
  limits->int8 = true;
  widen(&limits->attn_out, 5);
  widen(&limits->moe_out, 2);
  widen(&limits->streams_out, 2.5);
  limits->cache_elements = kCacheElements;
  limits->cache_steps = kCacheSteps;
  limits->median_factor = kMedianFactor;
  if (limits->median_logit) *limits->median_logit *= kMedianFactor;
}

}  // namespace

Result<Limits> ReadLimits(const GoldenFolder& golden, const kernels::Ops& ops) {
  Reader read(golden, ops.same_rounding);
  Limits out;
  out.same_rounding = ops.same_rounding;
  ReadLayerLocal(read, &out);
  ReadEndToEnd(read, &out);
  out.short_prompts = FindShortPrompts(golden, read.kind());
  TW_TRY(read.status());
  if (ops.numerics == kernels::Numerics::kFast) WidenForInt8(&out);
  return out;
}

}  // namespace thalweg::tools
