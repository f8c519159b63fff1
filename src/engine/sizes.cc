#include "engine/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/math.h"

namespace thalweg::engine {
namespace {

int64_t Mib(int64_t bytes) { return base::CeilDiv<int64_t>(bytes, 1 << 20); }

// Works out one engine's sizes; the plan of a choice comes from the model.
class Chooser {
 public:
  Chooser(const checkpoint::Config& config, const EngineOptions& options, model::ModelOptions model,
          int64_t free_bytes)
      : config_(config),
        options_(options),
        model_(model),
        free_(free_bytes < 0 ? std::numeric_limits<int64_t>::max() / 4 : free_bytes) {
    model_.max_rows = options.max_rows;
    model_.max_sequences = options.max_sequences;
    model_.blocks_from_outside = true;
  }

  Result<Sizes> Choose() {
    TW_TRY(ChooseContext());
    // Tables stay with the host before anything else is given up.
    tables_move_ = NeededBytes(PlanOf(kBlockTokens, 0)) > free_;
    // Packed weights are dropped before the cache is, when they do not fit (model/model.h).
    if (model_.repack == model::Repack::kAuto && NeededBytes(PlanOf(kBlockTokens, 0)) > free_)
      model_.repack = model::Repack::kNever;
    ChooseCache();
    ChooseCheckpoints();
    sizes_.memory = PlanOf(sizes_.cache_tokens, sizes_.checkpoints);
    TW_TRY(CheckFits());
    return sizes_;
  }

 private:
  model::MemoryPlan PlanOf(int64_t cache_tokens, int64_t checkpoints) const {
    model::ModelOptions model = model_;
    model.max_tokens = cache_tokens;
    model.checkpoints = checkpoints;
    model::MemoryPlan plan = model::PlanMemory(config_, model);
    if (tables_move_) plan.packed_weights -= plan.movable_tables;
    return plan;
  }

  Status ChooseContext() {
    const int64_t most = config_.max_position_embeddings;
    sizes_.context_tokens = options_.max_context == 0 ? most : options_.max_context;
    if (sizes_.context_tokens <= most) return {};
    return base::OutOfRange(fmt::format("--max-context is {}, but the model's context is {}",
                                        sizes_.context_tokens, most));
  }

  int64_t FreeForCache() const {
    return std::max<int64_t>(0, free_ - NeededBytes(PlanOf(kBlockTokens, 0)));
  }

  void ChooseCache() {
    if (options_.cache_tokens > 0) {
      sizes_.cache_tokens = base::RoundUp(options_.cache_tokens, kBlockTokens);
    } else {
      const int64_t block_bytes = std::max<int64_t>(
          1, PlanOf(2 * kBlockTokens, 0).cache_blocks - PlanOf(kBlockTokens, 0).cache_blocks);
      const int64_t wanted =
          options_.max_sequences * base::CeilDiv(sizes_.context_tokens, kBlockTokens);
      const int64_t fits = FreeForCache() / 2 / block_bytes;
      sizes_.cache_tokens = std::max<int64_t>(1, std::min(wanted, fits)) * kBlockTokens;
    }
    // A context that nobody asked for shrinks to what fits; one that was asked for is kept, and
    // refused if there is no memory for it.
    if (options_.max_context == 0) {
      sizes_.context_tokens = std::min(sizes_.context_tokens, sizes_.cache_tokens);
    } else {
      sizes_.cache_tokens =
          std::max(sizes_.cache_tokens, base::RoundUp(sizes_.context_tokens, kBlockTokens));
    }
  }

  void ChooseCheckpoints() {
    if (options_.cache_checkpoints >= 0 || !options_.prefix_reuse ||
        options_.exactness == sched::PrefixExactness::kBounded) {
      sizes_.checkpoints = std::max<int64_t>(0, options_.cache_checkpoints);
      return;
    }
    const int64_t bytes = std::max<int64_t>(1, PlanOf(kBlockTokens, 1).checkpoints);
    const int64_t wanted =
        sizes_.cache_tokens / options_.checkpoint_interval + options_.max_sequences;
    sizes_.checkpoints = std::min(wanted, FreeForCache() / 8 / bytes);
  }

  Status CheckFits() const {
    const model::MemoryPlan& plan = sizes_.memory;
    if (NeededBytes(plan) <= free_) return {};
    return base::ResourceExhausted(fmt::format(
        "the model needs {} MiB (packed weights {}, cache of {} tokens {}, {} checkpoints {}, {} "
        "sequences {}, workspace {}, a device's own {}), but {} MiB are free: lower --max-context, "
        "--cache-tokens, --max-sequences or --max-rows, or use --repack never",
        Mib(NeededBytes(plan)), Mib(plan.packed_weights), sizes_.cache_tokens,
        Mib(plan.cache_blocks), sizes_.checkpoints, Mib(plan.checkpoints), options_.max_sequences,
        Mib(plan.sequence_slots), Mib(plan.workspace), Mib(plan.device_work), Mib(free_)));
  }

  const checkpoint::Config& config_;
  const EngineOptions& options_;
  model::ModelOptions model_;
  int64_t free_;
  bool tables_move_ = false;
  Sizes sizes_;
};

}  // namespace

int64_t NeededBytes(const model::MemoryPlan& plan) {
  return plan.packed_weights + plan.cache_blocks + plan.sequence_slots + plan.checkpoints +
         plan.workspace + plan.device_work;
}

Result<Sizes> ChooseSizes(const checkpoint::Config& config, const EngineOptions& options,
                          model::ModelOptions model, int64_t free_bytes) {
  return Chooser(config, options, model, free_bytes).Choose();
}

}  // namespace thalweg::engine
