// Products with dense matrices: linear in its three formats, grouped_linear, gate, head, markov.
#include <fmt/format.h>

#include <numeric>

#include "tools/bench/op.h"

namespace thalweg::tools::bench {
namespace {

using kernels::Matrix;
using kernels::Projection;
using kernels::WeightFormat;

constexpr int64_t kActivationBytes = 2;  // of a bf16 value

double ProductFlops(int64_t rows, int64_t in, int64_t out) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
}

// Several matrices over the same input rows, in as many copies as make them cold.
struct LinearSet {
  int64_t in = 0;
  std::vector<int64_t> outs;
  WeightFormat format = WeightFormat::kBF16;
  bool fp32_out = false;
  kernels::Inputs inputs = kernels::Inputs::kQuantised;

  int64_t all_outs() const { return std::accumulate(outs.begin(), outs.end(), int64_t{0}); }
  int64_t bytes() const { return StoredBytes(format, all_outs(), in); }
  std::string Name() const { return fmt::format("{}x{}", in, fmt::join(outs, "+")); }
};

struct LinearWeights {
  Memory memory;
  std::vector<std::vector<Matrix>> copies;  // [copies][outs]
};

std::shared_ptr<LinearWeights> MakeWeights(const OpContext& context, const LinearSet& set) {
  auto weights = std::make_shared<LinearWeights>();
  WeightMaker maker = context.Weights(&weights->memory);
  for (int64_t i = 0; i < context.Copies(set.bytes()); ++i) {
    std::vector<Matrix>& copy = weights->copies.emplace_back();
    for (const int64_t out : set.outs) {
      copy.push_back(maker.Make(set.format, out, set.in, set.inputs));
    }
  }
  return weights;
}

PreparedOp PrepareLinear(const OpContext& context, const LinearSet& set,
                         std::shared_ptr<LinearWeights> weights, int64_t rows) {
  auto memory = std::make_shared<Memory>();
  const BF16* x = memory->ActivationBF16(rows * set.in);
  std::vector<Projection> outputs;
  for (const int64_t out : set.outs) {
    Projection& p = outputs.emplace_back();
    if (set.fp32_out) p.out_f32 = memory->Take<float>(rows * out);
    if (!set.fp32_out) p.out_bf16 = memory->Take<BF16>(rows * out);
  }
  const auto run = [&ops = context.ops, stream = context.stream, in = set.in, rows, x, memory,
                    weights, outputs](int64_t round) mutable {
    const auto copy = static_cast<size_t>(round) % weights->copies.size();
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].weight = weights->copies[copy][i];
    ops.linear({.stream = stream, .rows = rows, .in = in, .x = x, .projections = outputs});
  };
  const int64_t out_bytes = set.fp32_out ? 4 : kActivationBytes;
  const int64_t row_bytes = set.in * kActivationBytes + set.all_outs() * out_bytes;
  return {run,
          {static_cast<double>(set.bytes() + rows * row_bytes),
           ProductFlops(rows, set.in, set.all_outs())}};
}

Result<OpBench> MakeLinear(const OpContext& context, const LinearSet& set) {
  TW_TRY(context.CheckFits(set.bytes() * (context.Copies(set.bytes()) + 2)));
  auto weights = MakeWeights(context, set);
  return OpBench{.shape = set.Name(),
                 .peak = context.PeakOf(set.format),
                 .bytes_per_row = (set.in + set.all_outs()) * 8,
                 .prepare = [context, set, weights](int64_t rows) {
                   return PrepareLinear(context, set, weights, rows);
                 }};
}

Result<OpBenches> MakeLinears(const OpContext& context, std::vector<LinearSet> sets) {
  const WeightFormat format = sets.front().format;
  if (context.matrix.has_value()) sets = {{context.matrix->in, {context.matrix->out}, format}};
  OpBenches benches;
  for (const LinearSet& set : sets) {
    TW_ASSIGN(OpBench bench, MakeLinear(context, set));
    benches.push_back(std::move(bench));
  }
  return benches;
}

Result<OpBenches> LinearFp8(const OpContext& context) {
  const checkpoint::Config& c = context.config;
  const WeightFormat fp8 = WeightFormat::kFp8;
  std::vector<LinearSet> sets = {
      {c.hidden_size, {c.q_lora_rank, c.head_dim}, fp8},           // wq_a and wkv
      {c.q_lora_rank, {c.num_attention_heads * c.head_dim}, fp8},  // wq_b
      {c.o_groups * c.o_lora_rank, {c.hidden_size}, fp8},          // wo_b
      {c.q_lora_rank, {c.index_n_heads * c.index_head_dim}, fp8},  // indexer.wq_b
  };
  if (c.HasEngram()) {
    const int64_t looked_up = c.EngramColumns() * c.engram_head_dim;
    sets.push_back({looked_up, {(c.hc_mult + 1) * c.hidden_size}, fp8});
  }
  return MakeLinears(context, std::move(sets));
}

Result<OpBenches> LinearFp4(const OpContext& context) {
  const checkpoint::Config& c = context.config;
  return MakeLinears(context, {{c.hidden_size, {c.moe_intermediate_size}, WeightFormat::kFp4},
                               {c.moe_intermediate_size, {c.hidden_size}, WeightFormat::kFp4}});
}

Result<OpBenches> LinearBf16(const OpContext& context) {
  const checkpoint::Config& c = context.config;
  return MakeLinears(context, {{c.hidden_size, {c.head_dim, c.head_dim}, WeightFormat::kBF16, true},
                               {c.hidden_size, {c.index_n_heads}, WeightFormat::kBF16},
                               {c.head_dim, {c.index_head_dim}, WeightFormat::kBF16}});
}

// The language model's head: linear, but over the whole vocabulary and with fp32 outputs.
Result<OpBenches> Head(const OpContext& context) {
  const checkpoint::Config& c = context.config;
  const MatrixShape m = context.matrix.value_or(MatrixShape{c.hidden_size, c.vocab_size});
  TW_ASSIGN(OpBench bench, MakeLinear(context, {m.in, {m.out}, WeightFormat::kBF16, true}));
  return OpBenches{std::move(bench)};
}

PreparedOp PrepareGrouped(const OpContext& context, std::shared_ptr<LinearWeights> weights,
                          int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto memory = std::make_shared<Memory>();
  const int64_t in = c.num_attention_heads * c.head_dim;
  const int64_t out = c.o_groups * c.o_lora_rank;
  kernels::GroupedLinearParams p{.stream = context.stream,
                                 .rows = rows,
                                 .groups = c.o_groups,
                                 .group_in = in / c.o_groups,
                                 .group_out = c.o_lora_rank,
                                 .x = memory->ActivationBF16(rows * in),
                                 .weight = {},
                                 .out = memory->Take<BF16>(rows * out)};
  const auto run = [&ops = context.ops, p, memory, weights](int64_t round) mutable {
    p.weight = weights->copies[static_cast<size_t>(round) % weights->copies.size()].front();
    ops.grouped_linear(p);
  };
  const int64_t bytes =
      StoredBytes(WeightFormat::kFp8, out, p.group_in) + rows * (in + out) * kActivationBytes;
  return {run, {static_cast<double>(bytes), ProductFlops(rows, p.group_in, out)}};
}

Result<OpBenches> GroupedLinear(const OpContext& context) {
  const checkpoint::Config& c = context.config;
  const int64_t in = c.num_attention_heads * c.head_dim;
  const LinearSet set{.in = in / c.o_groups,
                      .outs = {c.o_groups * c.o_lora_rank},
                      .format = WeightFormat::kFp8,
                      .inputs = kernels::Inputs::kPlain};
  TW_TRY(context.CheckFits(set.bytes() * (context.Copies(set.bytes()) + 2)));
  auto weights = MakeWeights(context, set);
  return OpBenches{{.shape = fmt::format("{}x{}x{}", c.o_groups, set.in, c.o_lora_rank),
                    .peak = context.PeakOf(set.format),
                    .bytes_per_row = in * 16,
                    .prepare = [context, weights](int64_t rows) {
                      return PrepareGrouped(context, weights, rows);
                    }}};
}

PreparedOp PrepareGate(const OpContext& context, std::shared_ptr<LinearWeights> weights,
                       int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto memory = std::make_shared<Memory>();
  const int64_t topk = c.num_experts_per_tok;
  kernels::GateParams p{.stream = context.stream,
                        .rows = rows,
                        .hidden = c.hidden_size,
                        .experts = c.n_routed_experts,
                        .topk = topk,
                        .x = memory->ActivationBF16(rows * c.hidden_size),
                        .weight = {},
                        .bias = memory->Uniform(c.n_routed_experts, 0, 1),
                        .image_bias = memory->Uniform(c.n_routed_experts, 0, 1),
                        .row_is_image = memory->Take<uint8_t>(rows),
                        .route_scale = c.routed_scaling_factor,
                        .chosen = memory->Take<int32_t>(rows * topk),
                        .weights = memory->Take<float>(rows * topk)};
  const auto run = [&ops = context.ops, p, memory, weights](int64_t round) mutable {
    p.weight = weights->copies[static_cast<size_t>(round) % weights->copies.size()].front();
    ops.gate(p);
  };
  const int64_t bytes = StoredBytes(WeightFormat::kBF16, p.experts, p.hidden) +
                        rows * (p.hidden * kActivationBytes + topk * 8);
  return {run, {static_cast<double>(bytes), ProductFlops(rows, p.hidden, p.experts)}};
}

Result<OpBenches> Gate(const OpContext& context) {
  const checkpoint::Config& c = context.config;
  const LinearSet set{c.hidden_size, {c.n_routed_experts}, WeightFormat::kBF16};
  TW_TRY(context.CheckFits(set.bytes() * (context.Copies(set.bytes()) + 2)));
  auto weights = MakeWeights(context, set);
  return OpBenches{{.shape = fmt::format("{} top{}", set.Name(), c.num_experts_per_tok),
                    .peak = context.PeakOf(set.format),
                    .bytes_per_row = c.hidden_size * 8,
                    .prepare = [context, weights](int64_t rows) {
                      return PrepareGate(context, weights, rows);
                    }}};
}

struct MarkovWeights {
  Memory memory;
  Matrix head, confidence;
  const BF16* embed = nullptr;
};

PreparedOp PrepareMarkov(const OpContext& context, std::shared_ptr<MarkovWeights> weights,
                         int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto memory = std::make_shared<Memory>();
  const int64_t rank = c.dspark_markov_rank;
  auto* previous = memory->Take<int32_t>(rows);
  for (int64_t r = 0; r < rows; ++r) previous[r] = static_cast<int32_t>(r * 7919 % c.vocab_size);
  const kernels::MarkovParams p{.stream = context.stream,
                                .rows = rows,
                                .hidden = c.hidden_size,
                                .rank = rank,
                                .vocab = c.vocab_size,
                                .previous = previous,
                                .embed = weights->embed,
                                .head = weights->head,
                                .confidence = weights->confidence,
                                .state = memory->ActivationBF16(rows * c.hidden_size),
                                .state_stride = c.hidden_size,
                                .logits = memory->Take<float>(rows * c.vocab_size),
                                .logits_stride = c.vocab_size,
                                .confidence_out = memory->Take<float>(rows)};
  const auto run = [&ops = context.ops, p, memory, weights](int64_t) { ops.markov(p); };
  const int64_t bytes =
      c.vocab_size * rank * 2 + rows * (c.vocab_size * 8 + (c.hidden_size + rank) * 2);
  const double flops = ProductFlops(rows, rank, c.vocab_size);
  return {run, {static_cast<double>(bytes), flops + ProductFlops(rows, c.hidden_size + rank, 1)}};
}

Result<OpBenches> Markov(const OpContext& context) {
  const checkpoint::Config& c = context.config;
  if (!c.HasDraft()) return base::Unsupported("markov: this shape has no draft module");
  const int64_t rank = c.dspark_markov_rank;
  TW_TRY(context.CheckFits(c.vocab_size * rank * 8));
  auto weights = std::make_shared<MarkovWeights>();
  WeightMaker maker = context.Weights(&weights->memory);
  weights->head = maker.Make(WeightFormat::kBF16, c.vocab_size, rank);
  weights->confidence = maker.Make(WeightFormat::kBF16, 1, c.hidden_size + rank);
  weights->embed = weights->memory.SmallBF16(c.vocab_size * rank);
  return OpBenches{{.shape = fmt::format("{}x{}", rank, c.vocab_size),
                    .peak = PeakKind::kBf16,
                    .bytes_per_row = c.vocab_size * 8,
                    .prepare = [context, weights](int64_t rows) {
                      return PrepareMarkov(context, weights, rows);
                    }}};
}

constexpr OpEntry kOps[] = {
    {"linear_fp4", true, LinearFp4},
    {"linear_fp8", true, LinearFp8},
    {"linear_bf16", true, LinearBf16},
    {"grouped_linear", false, GroupedLinear},
    {"gate", false, Gate},
    {"markov", false, Markov},
    {"head", true, Head},
};

}  // namespace

std::span<const OpEntry> DenseOps() { return kOps; }

}  // namespace thalweg::tools::bench
