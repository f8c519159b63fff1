// Where the experts of an engine lie, on every rank: what rank 0 orders between two steps
// (exec/rank_orders.h) is done here, on rank 0 too.
#pragma once

#include "comm/communicator.h"
#include "engine/options.h"
#include "exec/rank_orders.h"
#include "model/expert_moves.h"
#include "parallel/statistics.h"

namespace thalweg::engine {

class ExpertPlaces {
 public:
  // `moves` may be null: experts stay. All of them outlive this.
  ExpertPlaces(comm::Communicator* group, model::ExpertParallel* experts, model::ExpertMoves* moves)
      : group_(group), experts_(experts), moves_(moves) {}

  Status Do(const exec::PlacementOrder& order);
  // The same from bytes of rank 0.
  Status Follow(const std::string& body);

  const parallel::Placement& placement() const { return experts_->placement(); }
  // Rows of all ranks between the last two orders to count.
  const parallel::ExpertCounts& counted() const { return counted_; }
  // Null: experts stay.
  const model::ExpertMoves* moves() const { return moves_; }

 private:
  Status Count();
  Status Begin(const exec::PlacementOrder& order);

  comm::Communicator* group_;
  model::ExpertParallel* experts_;
  model::ExpertMoves* moves_;
  parallel::ExpertCounts counted_;
};

// Places for experts that each rank has in a layer: as many as it must, and --expert-spare more, or
// those of --expert-placement.
Result<int64_t> SlotsOfRank(const EngineOptions& options, const checkpoint::Config& config,
                            int ranks);

// Where the experts lie at the beginning: what --expert-placement says; or as the counts in
// --expert-counts would have it, which rank 0 reads when there are some; or in order. Every rank of
// the group together. Errors: more ranks than experts, files for other sizes.
Result<parallel::Placement> FirstPlacement(const EngineOptions& options,
                                           const checkpoint::Config& config,
                                           comm::Communicator* group);

}  // namespace thalweg::engine
