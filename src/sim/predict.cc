#include "sim/predict.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "parallel/context_split.h"
#include "parallel/limits.h"
#include "sim/limits.h"
#include "sim/routing.h"
#include "sim/slowest.h"

namespace thalweg::sim {
namespace {

using parallel::SequencePart;

// Of one layer, the mean over what was drawn.
struct LayerTime {
  double experts_us = 0;
  double link_us = 0;
  double imbalance = 0;
  double bytes = 0;

  void Add(const LayerTime& more, double share) {
    experts_us += share * more.experts_us;
    link_us += share * more.link_us;
    imbalance += share * more.imbalance;
    bytes += share * more.bytes;
  }
};

double LinkTime(const Link& link, int64_t bytes) {
  return bytes == 0 ? 0 : link.latency_us + static_cast<double>(bytes) / link.gb_per_s / 1e3;
}

// An exchange ends when the slowest direction of the slowest rank has.
double ExchangeTime(const Cluster& c, const std::vector<RankTraffic>& ranks) {
  double slowest = 0;
  for (const RankTraffic& r : ranks) {
    slowest = std::max({slowest, LinkTime(c.in_node, std::max(r.sent_in_node, r.received_in_node)),
                        LinkTime(c.between_nodes, std::max(r.sent_between, r.received_between))});
  }
  return slowest;
}

double ExpertTime(const ExpertCosts& costs, const RankTraffic& rank) {
  double us = costs.fixed_us;
  for (const int64_t rows : rank.slot_rows) {
    if (rows > 0) us += costs.us_of_rows.At(static_cast<double>(rows));
  }
  return us;
}

LayerTime TimeOf(const Cluster& c, const ExpertCosts& costs, const LayerTraffic& traffic) {
  double sum = 0;
  std::vector<Spread> ranks;
  for (const RankTraffic& rank : traffic.dispatch) {
    const double us = ExpertTime(costs, rank);
    ranks.push_back({us, us * costs.spread});
    sum += us;
  }
  const double slowest = MeanOfLongest(ranks);
  const double mean = sum / static_cast<double>(traffic.dispatch.size());
  return {.experts_us = slowest,
          .link_us = ExchangeTime(c, traffic.dispatch) + ExchangeTime(c, traffic.combine),
          .imbalance = mean > 0 ? slowest / mean : 1,
          .bytes = static_cast<double>(traffic.bytes)};
}

// Experts of a cluster's ranks, placed by the loads that were counted.
class Experts {
 public:
  static Result<Experts> Place(const Cluster& cluster, const ExpertCosts& costs, int64_t ranks) {
    parallel::BalanceShape shape;
    TW_ASSIGN(shape.placement,
              parallel::ShapeFor(cluster.model.experts, ranks, ranks > 1 ? cluster.spare : 0));
    TW_ASSIGN(parallel::Placement placement, parallel::Balance(shape, cluster.counts.Loads()));
    return Experts(cluster, costs, std::move(placement));
  }

  // rows: of each rank in a step.
  LayerTime Layer(const std::vector<int64_t>& rows) const {
    const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    const int64_t wanted = std::max<int64_t>(1, kDraws / std::max<int64_t>(all * shape_.topk, 1));
    const auto layers = static_cast<int64_t>(placement_.layers.size());
    const int64_t drawn = std::min<int64_t>(wanted, 8 * layers);
    LayerTime mean;
    for (int64_t i = 0; i < drawn; ++i) {
      const auto layer = static_cast<size_t>(i % layers);
      const Router router(cluster_.counts.layers[layer], shape_.topk);
      const auto chosen = router.Draw(all, static_cast<uint32_t>(layer), static_cast<uint32_t>(i));
      const LayerTraffic traffic = TrafficOf(shape_, placement_.layers[layer], chosen, rows);
      mean.Add(TimeOf(cluster_, costs_, traffic), 1.0 / static_cast<double>(drawn));
    }
    return mean;
  }

 private:
  Experts(const Cluster& cluster, const ExpertCosts& costs, parallel::Placement placement)
      : cluster_(cluster), costs_(costs), placement_(std::move(placement)) {
    shape_ = {placement_.shape, cluster.model.hidden, cluster.model.topk, cluster.node_ranks};
  }

  const Cluster& cluster_;
  const ExpertCosts& costs_;
  parallel::Placement placement_;
  TrafficShape shape_;
};

void AddLayers(const Cluster& c, const LayerTime& layer, int64_t layers, double rows,
               Prediction* out) {
  const auto times = static_cast<double>(layers);
  out->experts_us += times * layer.experts_us;
  out->link_us += times * layer.link_us * (1 - c.overlap);
  out->imbalance = layer.imbalance;
  out->bytes_per_row = layer.bytes / rows;
}

void Finish(double tokens, Prediction* out) {
  out->step_us = out->dense_us + out->experts_us + out->skew_us + out->link_us + out->other_us;
  out->tokens_per_s = tokens / out->step_us * 1e6;
  out->tokens_per_s_per_rank = out->tokens_per_s / static_cast<double>(out->ranks);
}

// Ranks wait for each other in every layer, before rows are exchanged: what that adds to the dense
// ops of a step. They have equally much to do, but for what differs by chance.
double SkewTime(const DecodeCosts& costs, int64_t ranks, double dense_us) {
  const auto layers = static_cast<double>(costs.layers);
  const double layer_us = dense_us / layers;
  const std::vector<Spread> all(static_cast<size_t>(ranks), {layer_us, costs.spread * layer_us});
  return layers * (MeanOfLongest(all) - layer_us);
}

Prediction PredictDecode(const Cluster& c, const Experts& experts, int64_t batch) {
  const DecodeLoad& load = c.decode;
  Prediction out{.phase = "decode", .ranks = load.ranks, .batch = batch};
  const int64_t rows = batch * load.rows_per_sequence;
  for (const OpCost& op : c.costs.decode.ops) {
    out.ops.emplace_back(op.op(), op.At(static_cast<double>(rows), load.context));
    out.dense_us += out.ops.back().second;
  }
  out.skew_us = SkewTime(c.costs.decode, load.ranks, out.dense_us);
  const std::vector<int64_t> of_ranks(static_cast<size_t>(load.ranks), rows);
  AddLayers(c, experts.Layer(of_ranks), c.costs.decode.layers,
            static_cast<double>(rows * load.ranks), &out);
  out.other_us = load.draft_us;
  Finish(static_cast<double>(load.ranks * batch) * load.tokens_per_step, &out);
  out.tokens_per_s_per_user = load.tokens_per_step / out.step_us * 1e6;
  return out;
}

// The split works in whole numbers: as fine as its limits allow.
parallel::RowCost WholeCost(const PrefillCosts& costs) {
  double scale = std::min(1e6, static_cast<double>(parallel::kMostFixedCost) / costs.row_us);
  if (costs.position_us > 0)
    scale = std::min(scale, static_cast<double>(parallel::kMostPositionCost) / costs.position_us);
  return {std::max<int64_t>(1, static_cast<int64_t>(costs.row_us * scale)),
          static_cast<int64_t>(costs.position_us * scale)};
}

double DenseTime(const PrefillCosts& costs, const std::vector<SequencePart>& parts) {
  double us = costs.fixed_us;
  for (const SequencePart& part : parts) {
    const auto begin = static_cast<double>(part.begin), end = static_cast<double>(part.end);
    us += costs.row_us * (end - begin) + costs.position_us * (end - begin) * (begin + end - 1) / 2;
  }
  return us;
}

constexpr int64_t kGroup = 2;  // positions that a compressor joins: cuts are between groups

// Layers of steps by their rows, each drawn once: experts and links are taken as if the ranks of a
// step had equally many rows.
class StepLayers {
 public:
  explicit StepLayers(const Cluster& cluster, const Experts& experts)
      : ranks_(cluster.prefill.ranks), experts_(experts) {}

  const LayerTime& Of(int64_t rows) {
    const auto at = known_.find(rows);
    if (at != known_.end()) return at->second;
    std::vector<int64_t> of_ranks(static_cast<size_t>(ranks_), rows / ranks_);
    for (int64_t r = 0; r < rows % ranks_; ++r) ++of_ranks[static_cast<size_t>(r)];
    return known_.emplace(rows, experts_.Layer(of_ranks)).first->second;
  }

 private:
  int64_t ranks_;
  const Experts& experts_;
  std::map<int64_t, LayerTime> known_;
};

// One step of a prompt.
Status AddPrefillStep(const Cluster& c, StepLayers* layers, const SequencePart& rows,
                      Prediction* out) {
  const auto ranks = static_cast<int>(c.prefill.ranks);
  TW_ASSIGN(const parallel::ContextSplit split,
            parallel::SplitContext(std::span(&rows, 1), WholeCost(c.costs.prefill), ranks, kGroup));
  double slowest = 0;
  for (const auto& parts : split.ranks)
    slowest = std::max(slowest, DenseTime(c.costs.prefill, parts));
  out->dense_us += slowest;
  const auto all = static_cast<double>(rows.end - rows.begin);
  AddLayers(c, layers->Of(rows.end - rows.begin), c.costs.prefill.layers, all, out);
  if (ranks == 1) return {};
  // What each rank compresses goes to all others; a rank gets the most when it has no rows.
  const Link& link = ranks > c.node_ranks ? c.between_nodes : c.in_node;
  const auto gathered = static_cast<int64_t>(all * c.model.kv_bytes);
  out->link_us += LinkTime(link, gathered) * (1 - c.overlap);
  return {};
}

Result<Prediction> PredictPrefill(const Cluster& c, const Experts& experts, int64_t prompt) {
  Prediction out{.phase = "prefill", .ranks = c.prefill.ranks, .prompt = prompt};
  StepLayers layers(c, experts);
  for (int64_t begin = 0; begin < prompt; begin += c.prefill.step_rows) {
    const SequencePart rows{0, begin, std::min(prompt, begin + c.prefill.step_rows)};
    TW_TRY(AddPrefillStep(c, &layers, rows, &out));
  }
  out.other_us = c.costs.prefill.tail_us;
  Finish(static_cast<double>(prompt), &out);
  return out;
}

}  // namespace

Result<std::vector<Prediction>> Predict(const Cluster& cluster) {
  TW_TRY(CheckLoads(cluster));
  std::vector<Prediction> all;
  if (!cluster.decode.batches.empty()) {
    TW_ASSIGN(const Experts experts,
              Experts::Place(cluster, cluster.costs.experts, cluster.decode.ranks));
    for (const int64_t batch : cluster.decode.batches)
      all.push_back(PredictDecode(cluster, experts, batch));
  }
  if (cluster.prefill.prompts.empty()) return all;
  const PrefillCosts& costs = cluster.costs.prefill;
  TW_ASSIGN(const Experts experts,
            Experts::Place(cluster, costs.experts ? *costs.experts : cluster.costs.experts,
                           cluster.prefill.ranks));
  for (const int64_t prompt : cluster.prefill.prompts) {
    TW_ASSIGN(Prediction one, PredictPrefill(cluster, experts, prompt));
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace thalweg::sim
