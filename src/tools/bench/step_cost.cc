#include "tools/bench/step_cost.h"

#include <algorithm>
#include <cmath>

#include "tensor/row_format.h"

namespace thalweg::tools::bench {
namespace {

using kernels::WeightFormat;
using tensor::RowBytes;
using tensor::RowFormat;

// Adds matrices that every row passes through.
class Tally {
 public:
  explicit Tally(int64_t rows) : rows_(static_cast<double>(rows)) {}

  void Add(WeightFormat format, int64_t out, int64_t in) {
    cost_.bytes += static_cast<double>(StoredBytes(format, out, in));
    cost_.flops += 2.0 * rows_ * static_cast<double>(out) * static_cast<double>(in);
  }
  void AddCost(double bytes, double flops) { cost_ = cost_ + Cost{bytes, flops}; }
  const Cost& cost() const { return cost_; }

 private:
  double rows_;
  Cost cost_;
};

void AddProjections(const checkpoint::Config& c, Tally* tally) {
  const int64_t heads = c.num_attention_heads * c.head_dim;
  tally->Add(WeightFormat::kFp8, c.q_lora_rank + c.head_dim, c.hidden_size);
  tally->Add(WeightFormat::kFp8, heads, c.q_lora_rank);
  tally->Add(WeightFormat::kFp8, c.o_groups * c.o_lora_rank, heads / c.o_groups);
  tally->Add(WeightFormat::kFp8, c.hidden_size, c.o_groups * c.o_lora_rank);
  tally->Add(WeightFormat::kBF16, c.n_routed_experts, c.hidden_size);
  tally->Add(WeightFormat::kF32, 2 * c.HcCoefficients(), c.hc_mult * c.hidden_size);
}

void AddCompressed(const checkpoint::Config& c, const checkpoint::LayerPlan& plan, Tally* tally) {
  if (plan.owns_kv) {
    tally->Add(WeightFormat::kBF16, plan.ratio * c.head_dim, c.hidden_size);
    tally->Add(WeightFormat::kBF16, c.index_head_dim, c.head_dim);
  }
  if (!plan.owns_index) return;
  tally->Add(WeightFormat::kFp8, c.index_n_heads * c.index_head_dim, c.q_lora_rank);
  tally->Add(WeightFormat::kBF16, c.index_n_heads, c.hidden_size);
}

void AddExperts(const checkpoint::Config& c, int64_t rows, double distinct, Tally* tally) {
  const auto bytes = static_cast<double>(
      StoredBytes(WeightFormat::kFp4, 3 * c.moe_intermediate_size, c.hidden_size));
  const auto values = static_cast<double>(3 * c.moe_intermediate_size * c.hidden_size);
  tally->AddCost(distinct * bytes,
                 2.0 * static_cast<double>(rows * c.num_experts_per_tok) * values);
  tally->Add(WeightFormat::kFp8, 3 * c.moe_intermediate_size, c.hidden_size);
}

void AddEngram(const checkpoint::Config& c, int64_t rows, Tally* tally) {
  const int64_t width = c.EngramColumns() * c.engram_head_dim;
  tally->Add(WeightFormat::kFp8, (c.hc_mult + 1) * c.hidden_size, width);
  tally->AddCost(static_cast<double>(rows * (width + width / 32)), 0);
}

// Cached rows: read once by the rows of one sequence, by each sequence on its own otherwise.
void AddCaches(const checkpoint::Config& c, const checkpoint::LayerPlan& plan, const StepRows& rows,
               Tally* tally) {
  double window = 0, selected = 0, scored = 0;
  for (int64_t r = 0; r < rows.rows; ++r) {
    const int64_t entries = plan.ratio > 0 ? rows.visible(r) / plan.ratio : 0;
    const int64_t pool =
        plan.uses_candidates ? c.candidate_topk_blocks * c.candidate_block_size : entries;
    window += static_cast<double>(std::min(rows.visible(r), c.sliding_window));
    selected += static_cast<double>(std::min(entries, c.index_topk));
    if (plan.owns_index) scored += static_cast<double>(std::min(entries, pool));
  }
  const double times = rows.own_sequences ? 1.0 : 1.0 / static_cast<double>(rows.rows);
  const auto window_bytes = static_cast<double>(RowBytes(RowFormat::kFp8E8M0, c.head_dim));
  const auto row_bytes = static_cast<double>(RowBytes(RowFormat::kFp4E4M3, c.head_dim));
  const auto key_bytes = static_cast<double>(RowBytes(RowFormat::kFp4E8M0, c.index_head_dim));
  const auto head_values = static_cast<double>(c.num_attention_heads * c.head_dim);
  const auto index_values = static_cast<double>(c.index_n_heads * c.index_head_dim);
  tally->AddCost(times * (window * window_bytes + selected * row_bytes + scored * key_bytes),
                 4.0 * (window + selected) * head_values + 2.0 * scored * index_values);
}

}  // namespace

double ExpectedExperts(int64_t experts, int64_t topk, int64_t rows) {
  const auto all = static_cast<double>(experts);
  return all * (1.0 - std::pow(1.0 - static_cast<double>(topk) / all, static_cast<double>(rows)));
}

Cost LayerCost(const checkpoint::Config& config, int layer, const StepRows& rows,
               double distinct_experts) {
  const auto plans = checkpoint::PlanLayers(config);
  const checkpoint::LayerPlan& plan = plans[static_cast<size_t>(layer)];
  Tally tally(rows.rows);
  AddProjections(config, &tally);
  AddCompressed(config, plan, &tally);
  AddExperts(config, rows.rows, distinct_experts, &tally);
  if (plan.engram) AddEngram(config, rows.rows, &tally);
  AddCaches(config, plan, rows, &tally);
  return tally.cost();
}

Cost HeadCost(const checkpoint::Config& config, int64_t rows) {
  Tally tally(rows);
  tally.Add(WeightFormat::kBF16, config.vocab_size, config.hidden_size);
  return tally.cost();
}

Cost operator+(const Cost& a, const Cost& b) { return {a.bytes + b.bytes, a.flops + b.flops}; }

}  // namespace thalweg::tools::bench
