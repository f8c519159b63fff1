// The expert feed-forward networks: `moe_ffn` sends all rows of a call through the same few FP4
// experts and takes others for the next call; `moe_layer` routes every row to its own top-k and
// adds the shared FP8 expert, as a layer does.
#include <fmt/format.h>

#include <algorithm>

#include "base/rng.h"
#include "tools/bench/op.h"

namespace thalweg::tools::bench {
namespace {

using kernels::FeedForward;
using kernels::WeightFormat;

constexpr int64_t kExpertBytes = 1'500'000'000;  // of released size; caches hold nothing of it
constexpr int64_t kRoutings = 16;                // of moe_layer, one after another

struct ExpertPool {
  Memory memory;
  std::vector<FeedForward> experts;
  FeedForward shared;  // moe_layer: FP8
  int64_t hidden = 0, inner = 0;

  int64_t size() const { return static_cast<int64_t>(experts.size()); }
};

int64_t NetworkBytes(WeightFormat format, int64_t hidden, int64_t inner) {
  return 2 * StoredBytes(format, inner, hidden) + StoredBytes(format, hidden, inner);
}

double NetworkFlops(int64_t rows, int64_t hidden, int64_t inner) {
  return 6.0 * static_cast<double>(rows) * static_cast<double>(hidden) * static_cast<double>(inner);
}

// As many experts as the layer has, or as make their weights cold, or as fit.
int64_t PoolSize(const OpContext& context, int64_t expert_bytes) {
  const int64_t cold = context.cold_bytes > 0 ? kExpertBytes / expert_bytes + 1 : 1;
  const int64_t least = context.config.num_experts_per_tok + 1;
  const int64_t fits = context.memory_bytes / 2 / expert_bytes;
  return std::max(least, std::min({context.config.n_routed_experts, std::max(cold, least), fits}));
}

Result<std::shared_ptr<ExpertPool>> MakePool(const OpContext& context) {
  const checkpoint::Config& c = context.config;
  auto pool = std::make_shared<ExpertPool>();
  pool->hidden = context.matrix ? context.matrix->in : c.hidden_size;
  pool->inner = context.matrix ? context.matrix->out : c.moe_intermediate_size;
  const int64_t bytes = NetworkBytes(WeightFormat::kFp4, pool->hidden, pool->inner);
  const int64_t count = PoolSize(context, bytes);
  TW_TRY(context.CheckFits(bytes * count));
  WeightMaker maker = context.Weights(&pool->memory);
  for (int64_t e = 0; e < count; ++e) {
    pool->experts.push_back(maker.MakeFeedForward(WeightFormat::kFp4, pool->hidden, pool->inner));
  }
  return pool;
}

kernels::ExpertsParams BaseParams(const OpContext& context, const ExpertPool& pool, int64_t rows,
                                  int64_t topk, Memory* memory) {
  return {.stream = context.stream,
          .rows = rows,
          .hidden = pool.hidden,
          .inner = pool.inner,
          .topk = topk,
          .x = memory->ActivationBF16(rows * pool.hidden),
          .weights = memory->Uniform(rows * topk, 0.1f, 0.5f),
          .experts = pool.experts,
          .shared = pool.shared,
          .swiglu_limit = context.config.swiglu_limit,
          .out = memory->Take<BF16>(rows * pool.hidden)};
}

// Row r of `chosen` [rows, topk] becomes the `topk` experts from `first` on, ascending.
void ChooseSame(int64_t rows, int64_t topk, int64_t first, int64_t experts, int32_t* chosen) {
  for (int64_t i = 0; i < topk; ++i) chosen[i] = static_cast<int32_t>((first + i) % experts);
  std::sort(chosen, chosen + topk);
  for (int64_t r = 1; r < rows; ++r) std::copy_n(chosen, topk, chosen + r * topk);
}

// Every row through the same `each` routed experts, and through one more in the shared expert's
// place; the next call takes the experts behind them.
PreparedOp PrepareSame(const OpContext& context, std::shared_ptr<ExpertPool> pool, int64_t rows) {
  auto memory = std::make_shared<Memory>();
  const int64_t topk = context.config.num_experts_per_tok;
  const int64_t wanted =
      context.experts_per_call > 0 ? context.experts_per_call : (rows == 1 ? topk : 1);
  const int64_t each = std::min(wanted, pool->size() - 1);
  kernels::ExpertsParams p = BaseParams(context, *pool, rows, each, memory.get());
  auto* chosen = memory->Take<int32_t>(rows * each);
  p.chosen = chosen;
  const auto run = [&ops = context.ops, p, memory, pool, chosen, each](int64_t round) mutable {
    const int64_t first = round * (each + 1) % pool->size();
    ChooseSame(p.rows, each, first, pool->size(), chosen);
    p.shared = pool->experts[static_cast<size_t>((first + each) % pool->size())];
    ops.experts(p);
  };
  const int64_t bytes = (each + 1) * NetworkBytes(WeightFormat::kFp4, pool->hidden, pool->inner) +
                        rows * pool->hidden * 4;
  const double flops = NetworkFlops(rows * (each + 1), pool->hidden, pool->inner);
  return {run, {static_cast<double>(bytes), flops}};
}

Result<OpBenches> MoeFfn(const OpContext& context) {
  TW_ASSIGN(const std::shared_ptr<ExpertPool> pool, MakePool(context));
  return OpBenches{
      {.shape = fmt::format("{}x{} fp4, {} experts", pool->hidden, pool->inner, pool->size()),
       .peak = context.PeakOf(WeightFormat::kFp4),
       .bytes_per_row = (pool->hidden + pool->inner) * 32,
       .prepare = [context, pool](int64_t rows) { return PrepareSame(context, pool, rows); }}};
}

// Distinct experts for every row, ascending; [rows, topk].
void RouteRandomly(int64_t rows, int64_t topk, int64_t experts, uint32_t seed, int32_t* chosen) {
  for (int64_t r = 0; r < rows; ++r) {
    int32_t* row = chosen + r * topk;
    for (int64_t i = 0, draw = 0; i < topk; ++draw) {
      const uint32_t word = base::Philox4x32(
          {static_cast<uint32_t>(r), static_cast<uint32_t>(draw), seed, 0}, {17, 0})[0];
      const auto expert = static_cast<int32_t>(word % static_cast<uint32_t>(experts));
      if (std::find(row, row + i, expert) == row + i) row[i++] = expert;
    }
    std::sort(row, row + topk);
  }
}

int64_t DistinctExperts(const int32_t* chosen, int64_t count) {
  std::vector<int32_t> all(chosen, chosen + count);
  std::sort(all.begin(), all.end());
  return std::unique(all.begin(), all.end()) - all.begin();
}

PreparedOp PrepareRouted(const OpContext& context, std::shared_ptr<ExpertPool> pool, int64_t rows) {
  auto memory = std::make_shared<Memory>();
  const int64_t topk = context.config.num_experts_per_tok;
  kernels::ExpertsParams p = BaseParams(context, *pool, rows, topk, memory.get());
  auto* chosen = memory->Take<int32_t>(kRoutings * rows * topk);
  int64_t touched = 0;
  for (int64_t i = 0; i < kRoutings; ++i) {
    int32_t* routing = chosen + i * rows * topk;
    RouteRandomly(rows, topk, pool->size(), static_cast<uint32_t>(i), routing);
    touched += DistinctExperts(routing, rows * topk);
  }
  const auto run = [&ops = context.ops, p, memory, pool, chosen](int64_t round) mutable {
    p.chosen = chosen + round % kRoutings * p.rows * p.topk;
    ops.experts(p);
  };
  const double experts = static_cast<double>(touched) / kRoutings;
  const double bytes =
      experts * static_cast<double>(NetworkBytes(WeightFormat::kFp4, pool->hidden, pool->inner)) +
      static_cast<double>(NetworkBytes(WeightFormat::kFp8, pool->hidden, pool->inner) +
                          rows * pool->hidden * 4);
  return {run, {bytes, NetworkFlops(rows * (topk + 1), pool->hidden, pool->inner)}, kRoutings};
}

Result<OpBenches> MoeLayer(const OpContext& context) {
  TW_ASSIGN(const std::shared_ptr<ExpertPool> pool, MakePool(context));
  pool->shared =
      context.Weights(&pool->memory).MakeFeedForward(WeightFormat::kFp8, pool->hidden, pool->inner);
  return OpBenches{
      {.shape = fmt::format("{}x{} fp4, top{} of {} + fp8 shared", pool->hidden, pool->inner,
                            context.config.num_experts_per_tok, pool->size()),
       .peak = context.PeakOf(WeightFormat::kFp4),
       .bytes_per_row = (pool->hidden + pool->inner) * 64,
       .prepare = [context, pool](int64_t rows) { return PrepareRouted(context, pool, rows); }}};
}

constexpr OpEntry kOps[] = {{"moe_ffn", true, MoeFfn}, {"moe_layer", true, MoeLayer}};

}  // namespace

std::span<const OpEntry> ExpertOps() { return kOps; }

}  // namespace thalweg::tools::bench
