// Mistakes in the choice of rotation frequencies. An op gets angles, not positions: positions are
// recovered from the angle of the slowest pair, which is the only one that never goes full circle,
// and the angles are made again from the wrong frequencies.
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/reference/bodies.h"
#include "model/rope.h"
#include "tests/mistakes/mistakes.h"

namespace thalweg::tests {
namespace {

namespace reference = kernels::reference;
using kernels::Rotation;
using model::Angles;

struct RopeState {
  std::vector<checkpoint::LayerPlan> plans;
  model::RopeFrequencies right;
  std::vector<float> without_yarn;
  int sites = 0;  // hyper-connections predicted since the embedding: two a layer
  bool ratio_one_only = false;

  int ratio() const { return plans[static_cast<size_t>((sites - 1) / 2)].ratio; }
  const std::vector<float>& wrong() const { return ratio_one_only ? right.plain : without_yarn; }
};
RopeState g_rope;

std::vector<int64_t> PositionsOf(const Rotation& rotation, int64_t rows) {
  const int64_t half = rotation.rope_dim / 2;
  std::vector<int64_t> positions;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t slowest = r * half + half - 1;
    const float angle = std::atan2(rotation.sin[slowest], rotation.cos[slowest]);
    positions.push_back(std::lround(angle / g_rope.right.compressed.back()));
  }
  return positions;
}

// Whether these are the angles of a layer with compressed KV, to the bit.
bool IsCompressed(const Rotation& rotation, const std::vector<int64_t>& positions) {
  Angles angles;
  angles.Set(positions, g_rope.right.compressed);
  const auto values = positions.size() * static_cast<size_t>(rotation.rope_dim / 2);
  return std::memcmp(angles.rotation().sin, rotation.sin, values * sizeof(float)) == 0;
}

// Runs `body` with the wrong angles where the mistake applies.
template <typename Params>
void WithWrongAngles(const Params& p, void (*body)(const Params&)) {
  if (g_rope.ratio_one_only && g_rope.ratio() != 1) return body(p);
  const std::vector<int64_t> positions = PositionsOf(p.rotation, p.rows);
  if (!IsCompressed(p.rotation, positions)) return body(p);
  Angles angles;
  angles.Set(positions, g_rope.wrong());
  Params wrong = p;
  wrong.rotation = angles.rotation();
  body(wrong);
}

void Embed(const kernels::EmbedParams& p) {
  g_rope.sites = 0;
  reference::Embed(p);
}

void HyperPredict(const kernels::HyperPredictParams& p) {
  ++g_rope.sites;
  reference::HyperPredict(p);
}

void RotateWrongly(kernels::Ops* ops, bool ratio_one_only) {
  g_rope.ratio_one_only = ratio_one_only;
  ops->embed = Embed;
  ops->hyper_predict = HyperPredict;
  ops->window_rows = [](const kernels::WindowRowsParams& p) {
    WithWrongAngles(p, reference::WindowRows);
  };
  ops->store_rows = [](const kernels::StoreRowsParams& p) {
    WithWrongAngles(p, reference::StoreRows);
  };
  ops->index_select = [](const kernels::IndexSelectParams& p) {
    WithWrongAngles(p, reference::IndexSelect);
  };
  ops->attention = [](const kernels::AttentionParams& p) {
    WithWrongAngles(p, reference::Attention);
  };
}

}  // namespace

void SetRopeConfig(const checkpoint::Config& config) {
  g_rope.plans = checkpoint::PlanLayers(config);
  g_rope.right = model::MakeRopeFrequencies(config);
  checkpoint::Config plain = config;
  plain.rope_scaling.original_max_position_embeddings = 0;
  g_rope.without_yarn = model::MakeRopeFrequencies(plain).compressed;
}

void UsePlainRopeAtRatioOne(kernels::Ops* ops) { RotateWrongly(ops, true); }
void IgnoreYarn(kernels::Ops* ops) { RotateWrongly(ops, false); }

}  // namespace thalweg::tests
