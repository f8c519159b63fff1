#include "tools/forward_order.h"

#include <algorithm>
#include <array>

#include "model/probe.h"

namespace thalweg::tools {
namespace {

namespace point = model::point;

// No point of the forward: judged from the index queries, weights and keys.
constexpr std::string_view kIndexScore = "index_score";

constexpr std::array kPoints = {
    point::kEngramRows, point::kEngramStreams, point::kAttnPre,       point::kAttnPost,
    point::kAttnComb,   point::kAttnIn,        point::kCompressedKv,  point::kIndexK,
    point::kPendingKv,  point::kPendingScore,  point::kWindowKv,      point::kIndexQ,
    point::kIndexW,     kIndexScore,           point::kCandidates,    point::kIndexSel,
    point::kAttnOut,    point::kFfnPre,        point::kFfnPost,       point::kFfnComb,
    point::kFfnIn,      point::kRouterExperts, point::kRouterWeights, point::kMoeOut,
    point::kStreamsOut, point::kPreMixOut,     point::kTaps,          point::kLogits};

}  // namespace

int ForwardOrder(std::string_view name) {
  return static_cast<int>(std::find(kPoints.begin(), kPoints.end(), name) - kPoints.begin());
}

bool IsForwardPoint(std::string_view name) {
  return name != kIndexScore && std::find(kPoints.begin(), kPoints.end(), name) != kPoints.end();
}

std::string ForwardPointNames() {
  std::string names;
  for (const std::string_view name : kPoints) {
    if (name == kIndexScore) continue;
    names += names.empty() ? "" : ", ";
    names += name;
  }
  return names;
}

}  // namespace thalweg::tools
