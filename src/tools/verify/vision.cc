// What the golden folder stores for images. The forward of this build reads text; what can be
// checked of a prompt with an image is how the Engram treats its span.
#include <fmt/format.h>

#include <algorithm>

#include "tools/verify/context.h"

namespace thalweg::tools {
namespace {

using tensor::DType;

constexpr int32_t kTextType = -1;

// Compares the Engram rows of every Engram layer with [tokens, Engram layers, columns].
class EngramProbe : public model::Probe {
 public:
  EngramProbe(const checkpoint::Config& config, const tensor::View& stored)
      : plans_(checkpoint::PlanLayers(config)), stored_(stored) {}

  bool Wants(int, std::string_view point) const override {
    return point == model::point::kEngramRows;
  }
  void See(int layer, std::string_view, const tensor::MutableView& view) override {
    const int64_t tables = stored_.shape[1];
    const int64_t columns = stored_.shape[2];
    for (int64_t i = 0; i < view.shape.elements(); ++i) {
      const int64_t row = i / columns * tables + plans_[static_cast<size_t>(layer)].engram_index;
      differing_ += view.as<int64_t>()[i] != stored_.as<int32_t>()[row * columns + i % columns];
    }
  }
  int64_t differing() const { return differing_; }

 private:
  const std::vector<checkpoint::LayerPlan> plans_;
  const tensor::View stored_;
  int64_t differing_ = 0;
};

Status VerifyImageSpan(VerifyContext& context) {
  const checkpoint::Config& c = context.config();
  TW_ASSIGN(const auto ids, context.golden.Integers("vl/ids"));
  const auto tokens = static_cast<int64_t>(ids.size());
  if (tokens > kMaxGoldenTokens) return base::OutOfRange("golden entry vl/ids is too long");
  TW_ASSIGN(const auto types, context.golden.Get("vl/token_types", DType::kI32, {tokens}));
  TW_ASSIGN(const auto stored,
            context.golden.Get(
                "vl/engram_rows", DType::kI32,
                {tokens, static_cast<int64_t>(c.engram_layer_ids.size()), c.EngramColumns()}));
  std::vector<uint8_t> image;
  for (int64_t t = 0; t < tokens; ++t) image.push_back(types.as<int32_t>()[t] != kTextType);
  EngramProbe probe(c, stored);
  VerifySequence sequence(context.model);
  TW_TRY(sequence.Append(ids, model::LogitRows::kNone, &probe, image).status());
  context.report.AtMost({.stage = Stage::kVision, .part = "engram_rows", .name = "vl/engram_rows"},
                        static_cast<double>(probe.differing()), 0,
                        "dead tokens inside the image span");
  return {};
}

}  // namespace

Status VerifyVision(VerifyContext& context) {
  const bool span = context.golden.Has("vl/engram_rows") && context.config().HasEngram();
  if (span) TW_TRY(VerifyImageSpan(context));
  for (const std::string_view prefix : {"vision/", "vl/"}) {
    for (const std::string& name : context.golden.EntriesBelow(prefix)) {
      const bool used = name == "vl/ids" || name == "vl/token_types" || name == "vl/engram_rows";
      if (span && used) continue;
      context.report.Skip({.stage = Stage::kVision, .part = "vision", .name = name},
                          "the vision tower is not part of this build");
    }
  }
  if (context.golden.Find("vision/grid_plans") != nullptr) {
    context.report.Skip({.stage = Stage::kVision, .part = "vision", .name = "vision/grid_plans"},
                        "the vision tower is not part of this build");
  }
  return {};
}

}  // namespace thalweg::tools
