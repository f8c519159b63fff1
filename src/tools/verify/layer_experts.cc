// Layer-local checks of the router. A row may choose other experts than stored only where the
// border of its top-k is a near tie; such a row is left out of what follows in its layer.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tools/verify/layer_probe.h"

namespace thalweg::tools {
namespace {

namespace point = model::point;
using tensor::BF16;
using tensor::DType;

float ElementOf(const tensor::View& view, int64_t i) {
  return view.dtype == DType::kF32 ? view.as<float>()[i] : tensor::ToFloat(view.as<BF16>()[i]);
}

// sqrt(softplus(z)), in double.
double RouterScore(double z) {
  return std::sqrt(std::max(z, 0.0) + std::log1p(std::exp(-std::fabs(z))));
}

}  // namespace

Status LayerProbe::SeeRouterExperts(const Seen& seen) {
  const int32_t* ids = seen.view.as<int32_t>();
  experts_.assign(ids, ids + tokens_ * seen.view.shape[1]);
  return {};
}

bool LayerProbe::SameExperts(int64_t row, const int32_t* stored) const {
  const auto topk = static_cast<int64_t>(experts_.size()) / tokens_;
  std::vector<int32_t> a(experts_.begin() + row * topk, experts_.begin() + (row + 1) * topk);
  std::vector<int32_t> b(stored, stored + topk);
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

double LayerProbe::WeightError(int64_t row, const float* got, const int32_t* experts,
                               const float* weights) const {
  const auto topk = static_cast<int64_t>(experts_.size()) / tokens_;
  double worst = 0;
  for (int64_t i = 0; i < topk; ++i) {
    const int32_t* at =
        std::find(experts, experts + topk, experts_[static_cast<size_t>(row * topk + i)]);
    worst = Worse(worst, std::fabs(double{got[i]} - weights[at - experts]));
  }
  return worst;
}

Result<double> LayerProbe::RouterGap(int layer, int64_t row) const {
  const checkpoint::Config& c = context_.config();
  const int64_t hidden = c.hidden_size;
  const auto topk = static_cast<size_t>(c.TopExperts(false));
  TW_ASSIGN(const tensor::View input,
            golden().Get(Entry(layer, point::kFfnIn), DType::kBF16, {kAnyDimension, hidden}));
  const BF16* x = input.as<BF16>() + (row - tokens_ + input.shape[0]) * hidden;
  const tensor::View w = context_.checkpoint.Get(fmt::format("layers.{}.ffn.gate.weight", layer));
  const tensor::View bias = context_.checkpoint.Get(fmt::format("layers.{}.ffn.gate.bias", layer));
  std::vector<double> scores;
  for (int64_t e = 0; e < c.Experts(false); ++e) {
    double z = 0;
    for (int64_t i = 0; i < hidden; ++i)
      z += double{tensor::ToFloat(x[i])} * ElementOf(w, e * hidden + i);
    scores.push_back(RouterScore(z) + ElementOf(bias, e));
  }
  if (scores.size() <= topk) return std::numeric_limits<double>::infinity();
  std::sort(scores.begin(), scores.end(), std::greater<>());
  return scores[topk - 1] - scores[topk];
}

Status LayerProbe::SeeRouterWeights(const Seen& seen) {
  if (!Stored(seen) || ffn_rows_ == 0) return {};
  const int64_t topk = seen.view.shape[1];
  TW_ASSIGN(const tensor::View experts,
            golden().Get(Entry(seen.layer, point::kRouterExperts), DType::kI32, {tokens_, topk}));
  TW_ASSIGN(const tensor::View weights,
            golden().Get(Entry(seen.layer, seen.point), DType::kF32, {tokens_, topk}));
  double gap = 0;
  double off = 0;
  for (int64_t r = tokens_ - ffn_rows_; r < tokens_; ++r) {
    const int32_t* stored = experts.as<int32_t>() + r * topk;
    if (SameExperts(r, stored)) {
      off = Worse(off, WeightError(r, seen.view.as<float>() + r * topk, stored,
                                   weights.as<float>() + r * topk));
      continue;
    }
    moved_[static_cast<size_t>(r)] = 1;
    TW_ASSIGN(const double row_gap, RouterGap(seen.layer, r));
    gap = Worse(gap, row_gap);
  }
  context_.report.AtMost(Id(seen.layer, point::kRouterExperts), gap, context_.limits.router_gap,
                         "largest gap of a row with other experts");
  context_.report.AtMost(Id(seen.layer, seen.point), off, context_.limits.router_weight);
  return {};
}

}  // namespace thalweg::tools
