// Ops that stay within a row: embed, mHC, collapse, tap, norm, Engram.
#include <fmt/format.h>

#include <algorithm>

#include "base/rng.h"
#include "tools/bench/op.h"

namespace thalweg::tools::bench {
namespace {

constexpr int64_t kEmbeddings = 4096;                 // of a table that is far larger
constexpr int64_t kEngramBytes = int64_t{256} << 20;  // of a table that is far larger
constexpr int64_t kEngramDraws = 16;                  // sets of rows, one a call

double AsDouble(int64_t n) { return static_cast<double>(n); }

std::string StreamsShape(const OpContext& context) {
  return fmt::format("{}x{}", context.config.hc_mult, context.config.hidden_size);
}

// A bench of one shape whose operands are some streams of each row.
OpBenches StreamsBench(const OpContext& context, PreparedOp (*prepare)(const OpContext&, int64_t)) {
  return {{.shape = StreamsShape(context),
           .bytes_per_row = context.config.hc_mult * context.config.hidden_size * 16,
           .prepare = [context, prepare](int64_t rows) { return prepare(context, rows); }}};
}

PreparedOp PrepareEmbed(const OpContext& context, int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto memory = std::make_shared<Memory>();
  const int64_t table_rows = std::min(kEmbeddings, c.vocab_size);
  auto* ids = memory->Take<int32_t>(rows);
  const kernels::EmbedParams p{.stream = context.stream,
                               .rows = rows,
                               .streams_n = c.hc_mult,
                               .hidden = c.hidden_size,
                               .ids = ids,
                               .table = memory->SmallBF16(table_rows * c.hidden_size),
                               .streams = memory->Take<BF16>(rows * c.hc_mult * c.hidden_size),
                               .pre_mix = memory->Take<float>(rows * c.hc_mult)};
  const auto run = [&ops = context.ops, p, memory, ids, table_rows](int64_t round) {
    for (int64_t r = 0; r < p.rows; ++r) {
      ids[r] = static_cast<int32_t>((round * p.rows + r) * 7919 % table_rows);
    }
    ops.embed(p);
  };
  return {run, {AsDouble(rows * c.hidden_size * 2 * (1 + c.hc_mult)), 0}};
}

PreparedOp PrepareFinish(const OpContext& context, int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto memory = std::make_shared<Memory>();
  const int64_t n = c.hc_mult;
  const float even = 1.0f / static_cast<float>(n);
  const kernels::HyperFinishParams p{
      .stream = context.stream,
      .rows = rows,
      .streams_n = n,
      .hidden = c.hidden_size,
      .update = memory->ActivationBF16(rows * c.hidden_size),
      .post = memory->Uniform(rows * n, 0, 1),
      .comb = memory->Uniform(rows * n * n, even, even),  // doubly stochastic: nothing grows
      .streams = memory->ActivationBF16(rows * n * c.hidden_size)};
  return {[&ops = context.ops, p, memory](int64_t) { ops.hyper_finish(p); },
          {AsDouble(rows * c.hidden_size * 2 * (2 * n + 1)),
           AsDouble(rows * c.hidden_size * n * (2 * n + 2))}};
}

struct HyperSite {
  Memory memory;
  std::vector<const float*> fn;  // copies
};

kernels::HyperPredictParams PredictParams(const OpContext& context, int64_t rows, Memory* memory) {
  const checkpoint::Config& c = context.config;
  const int64_t n = c.hc_mult;
  return {.stream = context.stream,
          .rows = rows,
          .streams_n = n,
          .hidden = c.hidden_size,
          .streams = memory->ActivationBF16(rows * n * c.hidden_size),
          .base = memory->Uniform(c.HcCoefficients(), -1, 1),
          .scale = memory->Uniform(3, 0.5f, 1),
          .sinkhorn_iters = static_cast<int>(c.hc_sinkhorn_iters),
          .norm_eps = c.rms_norm_eps,
          .hc_eps = c.hc_eps,
          .pre_in = memory->Uniform(rows * n, 0, 1),
          .norm_weight = memory->SmallBF16(c.hidden_size),
          .pre_out = memory->Take<float>(rows * n),
          .post = memory->Take<float>(rows * n),
          .comb = memory->Take<float>(rows * n * n),
          .normed = memory->Take<BF16>(rows * c.hidden_size),
          .normed_quantised = memory->Take<BF16>(rows * c.hidden_size)};
}

PreparedOp PreparePredict(const OpContext& context, std::shared_ptr<HyperSite> site, int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto memory = std::make_shared<Memory>();
  kernels::HyperPredictParams p = PredictParams(context, rows, memory.get());
  const auto run = [&ops = context.ops, p, memory, site](int64_t round) mutable {
    p.fn = site->fn[static_cast<size_t>(round) % site->fn.size()];
    ops.hyper_predict(p);
  };
  const int64_t width = c.hc_mult * c.hidden_size;
  const int64_t bytes = c.HcCoefficients() * width * 4 + rows * (width * 2 + c.hidden_size * 4);
  return {run, {AsDouble(bytes), AsDouble(rows * (c.HcCoefficients() + 3) * width * 2)}};
}

Result<OpBenches> HyperPredict(const OpContext& context) {
  const checkpoint::Config& c = context.config;
  const int64_t values = c.HcCoefficients() * c.hc_mult * c.hidden_size;
  TW_TRY(context.CheckFits(values * 4 * context.Copies(values * 4)));
  auto site = std::make_shared<HyperSite>();
  for (int64_t i = 0; i < context.Copies(values * 4); ++i) {
    site->fn.push_back(site->memory.Uniform(values, -0.02f, 0.02f));
  }
  return OpBenches{
      {.shape = StreamsShape(context),
       .bytes_per_row = c.hc_mult * c.hidden_size * 16,
       .prepare = [context, site](int64_t rows) { return PreparePredict(context, site, rows); }}};
}

PreparedOp PrepareCollapse(const OpContext& context, int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto memory = std::make_shared<Memory>();
  const kernels::CollapseParams p{
      .stream = context.stream,
      .rows = rows,
      .streams_n = c.hc_mult,
      .hidden = c.hidden_size,
      .streams = memory->ActivationBF16(rows * c.hc_mult * c.hidden_size),
      .pre_mix = memory->Uniform(rows * c.hc_mult, 0, 1),
      .norm_weight = memory->SmallBF16(c.hidden_size),
      .norm_eps = c.rms_norm_eps,
      .normed = memory->Take<BF16>(rows * c.hidden_size)};
  return {[&ops = context.ops, p, memory](int64_t) { ops.collapse(p); },
          {AsDouble(rows * c.hidden_size * 2 * (c.hc_mult + 1)),
           AsDouble(rows * c.hidden_size * (2 * c.hc_mult + 4))}};
}

PreparedOp PrepareTap(const OpContext& context, int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto memory = std::make_shared<Memory>();
  const kernels::TapParams p{.stream = context.stream,
                             .rows = rows,
                             .streams_n = c.hc_mult,
                             .hidden = c.hidden_size,
                             .streams = memory->ActivationBF16(rows * c.hc_mult * c.hidden_size),
                             .out = memory->Take<BF16>(rows * c.hidden_size),
                             .out_quantised = memory->Take<BF16>(rows * c.hidden_size),
                             .out_stride = c.hidden_size};
  return {[&ops = context.ops, p, memory](int64_t) { ops.tap(p); },
          {AsDouble(rows * c.hidden_size * 2 * (c.hc_mult + 2)),
           AsDouble(rows * c.hidden_size * (c.hc_mult + 3))}};
}

PreparedOp PrepareNorm(const OpContext& context, int64_t width, int64_t rows) {
  auto memory = std::make_shared<Memory>();
  const kernels::NormParams p{.stream = context.stream,
                              .rows = rows,
                              .width = width,
                              .x = memory->ActivationBF16(rows * width),
                              .weight = memory->SmallBF16(width),
                              .eps = context.config.rms_norm_eps,
                              .out_quantised = memory->Take<BF16>(rows * width)};
  return {[&ops = context.ops, p, memory](int64_t) { ops.norm(p); },
          {AsDouble(rows * width * 4), AsDouble(rows * width * 6)}};
}

Result<OpBenches> Norm(const OpContext& context) {
  const int64_t width = context.config.q_lora_rank;
  return OpBenches{{.shape = fmt::format("{}", width),
                    .bytes_per_row = width * 8,
                    .prepare = [=](int64_t rows) { return PrepareNorm(context, width, rows); }}};
}

struct EngramTable {
  Memory memory;
  int64_t rows = 0;
  const uint8_t* codes = nullptr;
  const uint8_t* scales = nullptr;
};

std::shared_ptr<EngramTable> MakeTable(const OpContext& context) {
  const checkpoint::Config& c = context.config;
  auto table = std::make_shared<EngramTable>();
  const int64_t width = c.engram_head_dim;
  table->rows = std::min(c.engram_num_embeddings.front(), kEngramBytes / width);
  auto* codes = table->memory.Take<uint8_t>(table->rows * width);
  FillRandom(codes, table->rows * width, 5);
  for (int64_t i = 0; i < table->rows * width; ++i) codes[i] &= 0xf7;  // no NaN
  auto* scales = table->memory.Take<uint8_t>(table->rows * width / 32);
  std::fill_n(scales, table->rows * width / 32, uint8_t{120});
  table->codes = codes;
  table->scales = scales;
  return table;
}

PreparedOp PrepareGather(const OpContext& context, std::shared_ptr<EngramTable> table,
                         int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto memory = std::make_shared<Memory>();
  const int64_t columns = c.EngramColumns();
  auto* chosen = memory->Take<int64_t>(kEngramDraws * rows * columns);
  for (int64_t i = 0; i < kEngramDraws * rows * columns; ++i) {
    const uint32_t word = base::Philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, {19, 0})[0];
    chosen[i] = static_cast<int64_t>(word) % table->rows;
  }
  kernels::EngramGatherParams p{.stream = context.stream,
                                .rows = rows,
                                .columns = columns,
                                .width = c.engram_head_dim,
                                .codes = table->codes,
                                .scales = table->scales,
                                .out = memory->Take<BF16>(rows * columns * c.engram_head_dim)};
  const auto run = [&ops = context.ops, p, memory, table, chosen](int64_t round) mutable {
    p.table_rows = chosen + round % kEngramDraws * p.rows * p.columns;
    ops.engram_gather(p);
  };
  const int64_t values = columns * c.engram_head_dim;
  return {run, {AsDouble(rows * (values * 3 + values / 32)), AsDouble(rows * values * 4)}};
}

Result<OpBenches> EngramGather(const OpContext& context) {
  const checkpoint::Config& c = context.config;
  if (!c.HasEngram()) return base::Unsupported("engram_gather: this shape has no Engram");
  TW_TRY(context.CheckFits(2 * kEngramBytes));
  auto table = MakeTable(context);
  return OpBenches{
      {.shape = fmt::format("{}x{}", c.EngramColumns(), c.engram_head_dim),
       .bytes_per_row = c.EngramColumns() * (c.engram_head_dim + kEngramDraws) * 8,
       .prepare = [context, table](int64_t rows) { return PrepareGather(context, table, rows); }}};
}

PreparedOp PrepareEngramGate(const OpContext& context, int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto memory = std::make_shared<Memory>();
  const int64_t width = c.hc_mult * c.hidden_size;
  const kernels::EngramGateParams p{.stream = context.stream,
                                    .rows = rows,
                                    .streams_n = c.hc_mult,
                                    .hidden = c.hidden_size,
                                    .kv = memory->ActivationBF16(rows * (width + c.hidden_size)),
                                    .q_weight = memory->Uniform(width, 0.5f, 1),
                                    .k_weight = memory->Uniform(width, 0.5f, 1),
                                    .norm_eps = c.rms_norm_eps,
                                    .streams = memory->ActivationBF16(rows * width)};
  return {
      [&ops = context.ops, p, memory](int64_t) { ops.engram_gate(p); },
      {AsDouble(rows * (width * 6 + c.hidden_size * 2) + width * 8), AsDouble(rows * width * 10)}};
}

Result<OpBenches> Embed(const OpContext& c) { return StreamsBench(c, PrepareEmbed); }
Result<OpBenches> HyperFinish(const OpContext& c) { return StreamsBench(c, PrepareFinish); }
Result<OpBenches> Collapse(const OpContext& c) { return StreamsBench(c, PrepareCollapse); }
Result<OpBenches> Tap(const OpContext& c) { return StreamsBench(c, PrepareTap); }
Result<OpBenches> EngramGate(const OpContext& c) { return StreamsBench(c, PrepareEngramGate); }

constexpr OpEntry kOps[] = {{"embed", false, Embed},
                            {"hyper_finish", false, HyperFinish},
                            {"hyper_predict", false, HyperPredict},
                            {"collapse", false, Collapse},
                            {"tap", false, Tap},
                            {"norm", false, Norm},
                            {"engram_gather", false, EngramGather},
                            {"engram_gate", false, EngramGate}};

}  // namespace

std::span<const OpEntry> RowOps() { return kOps; }

}  // namespace thalweg::tools::bench
