#include "tools/bench/rank_links.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include "comm/thread_group.h"
#include "tools/bench/clock.h"

namespace thalweg::tools::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kShort = 64;  // bytes
constexpr int64_t kLong = 1 << 16;
constexpr int kWarmTurns = 30;
constexpr int kTurns = 150;
constexpr size_t kWorked = 1 << 16;  // numbers that a rank goes through before it sends

// When a rank began an exchange, and when it had all.
struct Turn {
  Clock::time_point begin, end;
};

// One rank's turns of exchanging so many bytes with each other.
std::vector<Turn> Exchange(comm::Communicator& group, int64_t bytes) {
  const auto ranks = static_cast<size_t>(group.size());
  const std::vector<int64_t> each(ranks, bytes);
  std::vector<std::byte> out(ranks * static_cast<size_t>(bytes)), in(out.size());
  std::vector<uint32_t> work(kWorked, 1);
  std::vector<Turn> turns;
  for (int i = 0; i < kWarmTurns + kTurns; ++i) {
    std::inclusive_scan(work.begin(), work.end(), work.begin());
    std::fill(out.begin(), out.end(), static_cast<std::byte>(work.back()));
    const auto begin = Clock::now();
    static_cast<void>(group.AllToAll(out, each, in, each));
    if (i >= kWarmTurns) turns.push_back({begin, Clock::now()});
  }
  return turns;
}

// us of each turn, from its last begin to its last end.
void AddTurns(const std::vector<std::vector<Turn>>& ranks, std::vector<double>* us) {
  for (size_t i = 0; i < ranks.front().size(); ++i) {
    Turn last = ranks.front()[i];
    for (const auto& rank : ranks)
      last = {std::max(last.begin, rank[i].begin), std::max(last.end, rank[i].end)};
    us->push_back(std::chrono::duration<double, std::micro>(last.end - last.begin).count());
  }
}

sim::ModelShape ShapeOf(const checkpoint::Config& config) {
  return {.hidden = config.hidden_size,
          .experts = config.n_routed_experts,
          .topk = config.num_experts_per_tok,
          .kv_bytes = 0};
}

}  // namespace

void LinkMeasurement::Round() {
  if (ranks_ == 1) return;
  comm::ThreadGroup group(ranks_);
  std::vector<std::vector<Turn>> quick(static_cast<size_t>(ranks_)), slow(quick.size());
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks_; ++r) {
    threads.emplace_back([&, end = std::shared_ptr(group.Join(r)), r = static_cast<size_t>(r)] {
      quick[r] = Exchange(*end, kShort);
      slow[r] = Exchange(*end, kLong);
    });
  }
  threads.clear();
  AddTurns(quick, &short_us_);
  AddTurns(slow, &long_us_);
}

sim::Link LinkMeasurement::Link() const {
  if (ranks_ == 1) return {};
  const double quick = MiddleOf(short_us_), slow = MiddleOf(long_us_);
  const auto bytes = static_cast<double>((ranks_ - 1) * (kLong - kShort));
  return {.latency_us = quick, .gb_per_s = bytes / std::max(slow - quick, 1e-3) / 1e3};
}

Result<sim::Prediction> PredictDecode(const checkpoint::Config& config, const sim::Costs& costs,
                                      const sim::Link& link, const parallel::ExpertCounts& counts,
                                      const RankLoad& load) {
  sim::Cluster cluster;
  cluster.model = ShapeOf(config);
  cluster.costs = costs;
  cluster.counts = counts;
  cluster.node_ranks = load.ranks;
  cluster.in_node = link;
  cluster.between_nodes = link;
  cluster.decode = {
      .ranks = load.ranks, .batches = {load.batch}, .context = static_cast<double>(load.context)};
  TW_ASSIGN(std::vector<sim::Prediction> all, sim::Predict(cluster));
  return std::move(all.front());
}

}  // namespace thalweg::tools::bench
