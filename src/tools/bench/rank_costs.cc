#include "tools/bench/rank_costs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "engine/rank_model.h"
#include "hub/hub.h"
#include "kernels/exchange.h"
#include "tensor/row_format.h"
#include "tools/bench/clock.h"
#include "tools/bench/rank_neighbours.h"
#include "tools/bench/rank_steps.h"

namespace thalweg::tools::bench {
namespace {

using engine::EngineOptions;

// Of an engine's step with so many rows of one rank behind so many tokens.
struct WholeSteps {
  EngineOptions options;

  static constexpr int64_t kTokens = 24;

  // Prompts end half the steps before the context that is asked for.
  Result<std::vector<double>> operator()(int64_t rows, int64_t context) const {
    const StepsLoad load{.sequences = rows,
                         .prompt = std::max<int64_t>(1, context - kTokens / 2),
                         .tokens = kTokens};
    TW_ASSIGN(const RankSteps run, RunRankSteps(options, load));
    std::vector<double> busy;
    for (const TimedStep& step : run.steps) busy.push_back(step.busy_us);
    return busy;
  }
};

// Rows that go to other ranks are written as codes, and those that come are read again, which a
// rank that exchanges rows with itself alone does not do.
class CodeTimes {
 public:
  CodeTimes(const checkpoint::Config& config, int64_t ranks)
      : width_(config.hidden_size), layers_(config.num_hidden_layers) {
    const auto n = static_cast<double>(ranks);
    const double missed = std::pow(1 - 1 / n, static_cast<double>(config.num_experts_per_tok));
    came_of_rows_ = (n - 1) * (1 - missed);
  }

  // `rows`: of each rank.
  void Sample(int64_t rows) {
    const auto came = static_cast<int64_t>(std::lround(static_cast<double>(rows) * came_of_rows_));
    std::vector<int32_t> all(static_cast<size_t>(std::max<int64_t>(rows, 1)));
    std::iota(all.begin(), all.end(), 0);
    const std::vector<tensor::BF16> x(static_cast<size_t>(rows * width_));
    std::vector<uint8_t> codes(static_cast<size_t>(rows * tensor::RowBytes(kFormat, width_)));
    std::vector<tensor::BF16> out(static_cast<size_t>(width_));
    for (int i = 0; i < kSamples; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      kernels::HostExchangeOps().pick_rows({.stream = {},
                                            .count = rows,
                                            .width = width_,
                                            .format = kFormat,
                                            .rows = all.data(),
                                            .x = x.data(),
                                            .out = codes.data()});
      for (int64_t row = 0; row < came; ++row)
        kernels::HostExchangeOps().unpack_rows({.stream = {},
                                                .count = 1,
                                                .width = width_,
                                                .format = kFormat,
                                                .rows = &all[static_cast<size_t>(row % rows)],
                                                .came = codes.data(),
                                                .out = out.data()});
      us_[rows].push_back(SecondsSince(begin) * 1e6 * static_cast<double>(layers_));
    }
  }

  sim::OpCost ToOp() const {
    std::vector<sim::OpCost::Point> points;
    for (const auto& [rows, us] : us_)
      points.push_back({static_cast<double>(rows), 0, MiddleOf(us)});
    return {"codes", points};
  }

 private:
  static constexpr tensor::RowFormat kFormat = tensor::RowFormat::kFp8E8M0;
  static constexpr int kSamples = 16;

  int64_t width_, layers_;
  double came_of_rows_ = 0;
  std::map<int64_t, std::vector<double>> us_;  // by rows, of a step
};

// One rank of one thread; a file of counts makes it one of a group.
EngineOptions OptionsOfOne(const EngineOptions& base, const std::string& counts) {
  EngineOptions options = base;
  options.ranks = 1;
  options.threads = 1;
  options.expert_spare = 0;
  options.expert_placement.clear();
  options.rebalance_window = 0;
  options.expert_counts = counts;
  return options;
}

model::ModelOptions SizesFor(const EngineOptions& options, const CostsOptions& at) {
  model::ModelOptions sizes;
  sizes.max_sequences = *std::max_element(at.batches.begin(), at.batches.end());
  sizes.max_rows = sizes.max_sequences;
  sizes.max_tokens = CostsTokens(at);
  sizes.repack = options.repack;
  return sizes;
}

}  // namespace

Result<checkpoint::Checkpoint> OpenForSteps(const EngineOptions& options) {
  TW_ASSIGN(hub::HubOptions hub, hub::HubOptions::FromEnvironment());
  hub.offline = true;
  TW_ASSIGN(const std::filesystem::path folder, hub::FindModel(options.model, hub));
  return checkpoint::Checkpoint::Open(folder, {.draft = false, .vision = false});
}

CostsOptions CostsAround(const std::vector<int64_t>& batches, int64_t context) {
  std::set<int64_t> sizes = {1};
  for (const int64_t batch : batches)
    for (const int64_t size : {batch * 3 / 4, batch * 3 / 2})
      if (size > 0 && std::find(batches.begin(), batches.end(), size) == batches.end())
        sizes.insert(size);
  return {.source = "bench ranks-decode",
          .batches = {sizes.begin(), sizes.end()},
          .contexts = {std::max<int64_t>(16, context / 2), 2 * context},
          .chunks = {},
          .steps = 8};
}

class RankCosts::Parts {
 public:
  Parts(LoneRank rank, std::vector<std::unique_ptr<Neighbour>> neighbours)
      : rank_(std::move(rank)),
        neighbours_(std::move(neighbours)),
        codes_(rank_.model->config(), static_cast<int64_t>(neighbours_.size()) + 1) {}

  void Measure(OpTrace* trace, const EngineOptions& options, CostsOptions at) {
    at.steps_us = WholeSteps{OptionsOfOne(options, neighbours_.empty() ? "" : counts_.path())};
    at.beside = [this](int64_t rows, int64_t context) -> Status {
      TW_TRY(Rest());
      TW_TRY(between_());
      for (const auto& one : neighbours_) TW_TRY(one->Decode(rows, context));
      if (!neighbours_.empty()) codes_.Sample(rows);
      return {};
    };
    measurement_ = std::make_unique<CostsMeasurement>(*rank_.model, *trace, std::move(at));
  }

  Status Round(const std::function<Status()>& between) {
    between_ = between;
    TW_TRY(measurement_->Steps());
    return Rest();
  }

  Result<sim::Costs> Costs() const {
    TW_ASSIGN(sim::Costs costs, sim::ParseCosts(measurement_->ToJson().dump(), "measured costs"));
    if (!neighbours_.empty()) costs.decode.ops.push_back(codes_.ToOp());
    return costs;
  }

 private:
  Status Rest() {
    for (const auto& one : neighbours_) TW_TRY(one->Rest());
    return {};
  }

  const CountsFile counts_;
  LoneRank rank_;
  std::vector<std::unique_ptr<Neighbour>> neighbours_;
  CodeTimes codes_;
  std::unique_ptr<CostsMeasurement> measurement_;
  std::function<Status()> between_;
};

RankCosts::RankCosts(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
RankCosts::~RankCosts() = default;

Result<std::unique_ptr<RankCosts>> RankCosts::Make(const EngineOptions& options,
                                                   const checkpoint::Checkpoint& checkpoint,
                                                   OpTrace* trace, int64_t ranks, CostsOptions at) {
  const model::ModelOptions sizes = SizesFor(options, at);
  TW_ASSIGN(LoneRank rank, LoneRank::Make(checkpoint, trace->ops(), sizes, ranks > 1));
  std::vector<std::unique_ptr<Neighbour>> neighbours;
  while (static_cast<int64_t>(neighbours.size()) + 1 < ranks) {
    TW_ASSIGN(LoneRank other, LoneRank::Make(checkpoint, trace->traced(), sizes, true));
    neighbours.push_back(std::make_unique<Neighbour>(std::move(other)));
  }
  auto parts = std::make_unique<Parts>(std::move(rank), std::move(neighbours));
  parts->Measure(trace, options, std::move(at));
  return std::unique_ptr<RankCosts>(new RankCosts(std::move(parts)));
}

Status RankCosts::Round(const std::function<Status()>& between) { return parts_->Round(between); }
Result<sim::Costs> RankCosts::Costs() const { return parts_->Costs(); }

}  // namespace thalweg::tools::bench
