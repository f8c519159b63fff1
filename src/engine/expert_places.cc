#include "engine/expert_places.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <utility>

#include "parallel/balance.h"

namespace thalweg::engine {
namespace {

using exec::PlacementOrder;
using parallel::ExpertCounts;
using parallel::Placement;

Result<Placement> PlacementOfFile(const EngineOptions& options, const Placement& in_order) {
  TW_ASSIGN(Placement placement, parallel::ReadPlacement(options.expert_placement));
  const bool fits = placement.shape.experts == in_order.shape.experts &&
                    placement.shape.ranks == in_order.shape.ranks &&
                    placement.layers.size() == in_order.layers.size();
  if (fits) return placement;
  return base::InvalidArgument(fmt::format(
      "{} places {} experts of {} layers on {} ranks; here are {} experts of {} layers and {} "
      "ranks: make one with thalweg inspect experts --ranks {}",
      options.expert_placement, placement.shape.experts, placement.layers.size(),
      placement.shape.ranks, in_order.shape.experts, in_order.layers.size(), in_order.shape.ranks,
      in_order.shape.ranks));
}

// What an engine before this one counted.
Result<Placement> PlacementByCounts(const std::string& file, const Placement& in_order) {
  TW_ASSIGN(const ExpertCounts counts, parallel::ReadCounts(file));
  const bool fits =
      counts.experts == in_order.shape.experts && counts.layers.size() == in_order.layers.size();
  if (!fits)
    return base::InvalidArgument(fmt::format(
        "{} counts {} experts of {} layers; here are {} of {}: give --expert-counts another file",
        file, counts.experts, counts.layers.size(), in_order.shape.experts,
        in_order.layers.size()));
  spdlog::info("experts are placed by {} rows of {}", counts.rows, file);
  return parallel::Balance({in_order.shape}, counts.Loads());
}

// Rank 0's placement, on all ranks.
Status ShareByCounts(const std::string& file, comm::Communicator* group, Placement* placement) {
  std::error_code error;
  if (group->rank() == 0 && std::filesystem::exists(file, error)) {
    TW_ASSIGN(*placement, PlacementByCounts(file, *placement));
  }
  for (auto& layer : placement->layers)
    TW_TRY(group->Broadcast(0, std::as_writable_bytes(std::span(layer))));
  return parallel::CheckPlacement(*placement);
}

}  // namespace

Status ExpertPlaces::Do(const PlacementOrder& order) {
  switch (order.kind) {
    case PlacementOrder::Kind::kCount: return Count();
    case PlacementOrder::Kind::kBegin: return Begin(order);
    case PlacementOrder::Kind::kAdvance: break;
  }
  if (moves_ == nullptr) return base::Unsupported("experts do not move");
  return moves_->Advance(order.bytes).status();
}

Status ExpertPlaces::Follow(const std::string& body) {
  TW_ASSIGN(const PlacementOrder order, exec::DecodePlacementOrder(body));
  return Do(order);
}

Status ExpertPlaces::Count() {
  counted_ = experts_->counts();
  experts_->Forget();
  std::vector<int64_t> flat = {counted_.rows};
  for (const auto& layer : counted_.layers) flat.insert(flat.end(), layer.begin(), layer.end());
  TW_TRY(group_->Sum(std::span(flat)));
  auto next = flat.begin();
  counted_.rows = *next++;
  for (auto& layer : counted_.layers)
    for (int64_t& count : layer) count = *next++;
  return {};
}

Status ExpertPlaces::Begin(const PlacementOrder& order) {
  if (moves_ == nullptr) return base::Unsupported("experts do not move");
  return moves_->Begin(order.layer, order.slots);
}

Result<int64_t> SlotsOfRank(const EngineOptions& options, const checkpoint::Config& config,
                            int ranks) {
  TW_ASSIGN(const parallel::PlacementShape shape,
            parallel::ShapeFor(config.n_routed_experts, ranks, options.expert_spare));
  if (options.expert_placement.empty()) return shape.slots_per_rank;
  TW_ASSIGN(const Placement placement, parallel::ReadPlacement(options.expert_placement));
  return placement.shape.slots_per_rank;
}

Result<Placement> FirstPlacement(const EngineOptions& options, const checkpoint::Config& config,
                                 comm::Communicator* group) {
  TW_ASSIGN(const parallel::PlacementShape shape,
            parallel::ShapeFor(config.n_routed_experts, group->size(), options.expert_spare));
  Placement placement = parallel::InOrder(shape, config.num_hidden_layers);
  if (!options.expert_placement.empty()) return PlacementOfFile(options, placement);
  if (!options.expert_counts.empty())
    TW_TRY(ShareByCounts(options.expert_counts, group, &placement));
  return placement;
}

}  // namespace thalweg::engine
