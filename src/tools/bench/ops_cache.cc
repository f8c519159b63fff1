// Ops on cached rows: window_rows, pool, store_rows, index_select, attention.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/bench/op.h"

namespace thalweg::tools::bench {
namespace {

using tensor::PagedRows;
using tensor::RowFormat;

constexpr RowFormat kMainFormat = RowFormat::kFp4E4M3;
constexpr RowFormat kIndexFormat = RowFormat::kFp4E8M0;
constexpr RowFormat kWindowFormat = RowFormat::kFp8E8M0;
constexpr int64_t kBlockRows = 64;
constexpr int64_t kSequences = 8;   // with caches of their own; rows of a call take turns
constexpr int64_t kSelections = 8;  // different ones, one a call

kernels::Rotation MakeRotation(int64_t rows, int64_t rope_dim, Memory* memory) {
  auto* cos = memory->Take<float>(rows * rope_dim / 2);
  auto* sin = memory->Take<float>(rows * rope_dim / 2);
  for (int64_t i = 0; i < rows * rope_dim / 2; ++i) {
    const auto angle = static_cast<float>(i % 1000);
    cos[i] = std::cos(angle);
    sin[i] = std::sin(angle);
  }
  return {.cos = cos, .sin = sin, .rope_dim = rope_dim};
}

// `rows` encoded random rows behind `out`.
void FillRows(RowFormat format, int64_t rows, int64_t width, uint8_t* out) {
  Memory memory;
  constexpr int64_t kDistinct = 128;
  const int64_t bytes = tensor::RowBytes(format, width);
  const BF16* values = memory.ActivationBF16(kDistinct * width);
  const int64_t made = std::min(rows, kDistinct);
  for (int64_t r = 0; r < made; ++r) {
    tensor::EncodeRow(format, values + r * width, width, out + r * bytes);
  }
  for (int64_t r = made; r < rows; ++r) std::copy_n(out + r % made * bytes, bytes, out + r * bytes);
}

// Caches of kSequences sequences, blocks of each scattered as a pool in use has them.
struct Cache {
  Memory memory;
  std::vector<PagedRows> sequences;

  Cache(RowFormat format, int64_t rows, int64_t width) {
    const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
    const int64_t row_bytes = tensor::RowBytes(format, width);
    auto* pool = memory.Take<uint8_t>(kSequences * blocks * kBlockRows * row_bytes);
    FillRows(format, kSequences * blocks * kBlockRows, width, pool);
    for (int64_t s = 0; s < kSequences; ++s) {
      auto* table = memory.Take<int32_t>(blocks);
      for (int64_t b = 0; b < blocks; ++b) table[b] = static_cast<int32_t>(b * kSequences + s);
      sequences.push_back({.pool = pool,
                           .blocks = table,
                           .rows_per_block = kBlockRows,
                           .block_bytes = kBlockRows * row_bytes,
                           .row_bytes = row_bytes,
                           .width = width,
                           .format = format});
    }
  }
};

int64_t CacheBytes(RowFormat format, int64_t rows, int64_t width) {
  return kSequences * (rows + kBlockRows) * tensor::RowBytes(format, width);
}

PreparedOp PrepareWindow(const OpContext& context, int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto memory = std::make_shared<Memory>();
  const int64_t bytes = tensor::RowBytes(kWindowFormat, c.head_dim);
  const kernels::WindowRowsParams p{
      .stream = context.stream,
      .rows = rows,
      .width = c.head_dim,
      .kv = memory->ActivationBF16(rows * c.head_dim),
      .norm_weight = memory->SmallBF16(c.head_dim),
      .norm_eps = c.rms_norm_eps,
      .rotation = MakeRotation(rows, c.qk_rope_head_dim, memory.get()),
      .format = kWindowFormat,
      .out = memory->Take<uint8_t>(rows * bytes)};
  return {[&ops = context.ops, p, memory](int64_t) { ops.window_rows(p); },
          {static_cast<double>(rows * (c.head_dim * 2 + bytes)),
           static_cast<double>(rows * c.head_dim * 6)}};
}

Result<OpBenches> WindowRows(const OpContext& context) {
  return OpBenches{{.shape = fmt::format("{}", context.config.head_dim),
                    .bytes_per_row = context.config.head_dim * 8,
                    .prepare = [context](int64_t rows) { return PrepareWindow(context, rows); }}};
}

// Ratio 2: groups of two tokens of which the compressor keeps fp32 values and scores.
PreparedOp PreparePool(const OpContext& context, int64_t rows) {
  const checkpoint::Config& c = context.config;
  const int64_t width = c.head_dim;
  auto memory = std::make_shared<Memory>();
  auto pointers = std::make_shared<std::vector<std::vector<const float*>>>(4);
  for (std::vector<const float*>& list : *pointers) {
    const float* values = memory->Uniform(rows * width, -1, 1);
    for (int64_t r = 0; r < rows; ++r) list.push_back(values + r * width);
  }
  const kernels::PoolParams p{.stream = context.stream,
                              .groups = rows,
                              .width = width,
                              .ratio = 2,
                              .first_kv = (*pointers)[0],
                              .first_score = (*pointers)[1],
                              .second_kv = (*pointers)[2],
                              .second_score = (*pointers)[3],
                              .norm_weight = memory->SmallBF16(width),
                              .norm_eps = c.rms_norm_eps,
                              .latent = memory->Take<BF16>(rows * width)};
  return {[&ops = context.ops, p, memory, pointers](int64_t) { ops.pool(p); },
          {static_cast<double>(rows * width * 18), static_cast<double>(rows * width * 12)}};
}

Result<OpBenches> Pool(const OpContext& context) {
  return OpBenches{{.shape = fmt::format("{} ratio 2", context.config.head_dim),
                    .bytes_per_row = context.config.head_dim * 32,
                    .prepare = [context](int64_t rows) { return PreparePool(context, rows); }}};
}

PreparedOp PrepareStore(const OpContext& context, int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto memory = std::make_shared<Memory>();
  const int64_t bytes = tensor::RowBytes(kMainFormat, c.head_dim);
  auto* rows_out = memory->Take<uint8_t>(rows * bytes);
  auto* destination = memory->Take<uint8_t*>(rows);
  for (int64_t r = 0; r < rows; ++r) destination[r] = rows_out + r * bytes;
  const kernels::StoreRowsParams p{.stream = context.stream,
                                   .rows = rows,
                                   .width = c.head_dim,
                                   .x = memory->ActivationBF16(rows * c.head_dim),
                                   .norm_eps = c.rms_norm_eps,
                                   .rotation = MakeRotation(rows, c.qk_rope_head_dim, memory.get()),
                                   .format = kMainFormat,
                                   .destination = destination};
  return {[&ops = context.ops, p, memory](int64_t) { ops.store_rows(p); },
          {static_cast<double>(rows * (c.head_dim * 2 + bytes)),
           static_cast<double>(rows * c.head_dim * 4)}};
}

Result<OpBenches> StoreRows(const OpContext& context) {
  return OpBenches{{.shape = fmt::format("{} fp4", context.config.head_dim),
                    .bytes_per_row = context.config.head_dim * 8,
                    .prepare = [context](int64_t rows) { return PrepareStore(context, rows); }}};
}

// --- Index selection. ---

enum class SelectKind { kPlain, kMakesCandidates, kInsideCandidates };

// Operands of index_select. Queries and head weights are changed by the op: fresh copies go in.
struct SelectOperands {
  Memory memory;
  kernels::IndexSelectParams p;
  const BF16* queries = nullptr;
  const BF16* head_weights = nullptr;
  kernels::CandidateSets candidates;
};

// Every (positions / capacity)th block of the context, for each row.
void ChooseBlocks(int64_t rows, int64_t context, kernels::CandidateSets* sets) {
  const int64_t blocks = context / sets->block_size;
  const int64_t kept = std::min(sets->capacity, blocks);
  for (int64_t r = 0; r < rows; ++r) {
    sets->count[r] = kept;
    for (int64_t i = 0; i < kept; ++i) {
      sets->blocks[r * sets->capacity + i] = static_cast<int32_t>(i * blocks / kept);
    }
  }
}

void AddCandidates(const OpContext& context, SelectKind kind, int64_t rows, SelectOperands* o) {
  if (kind == SelectKind::kPlain) return;
  const checkpoint::Config& c = context.config;
  o->candidates = {.blocks = o->memory.Take<int32_t>(rows * c.candidate_topk_blocks),
                   .count = o->memory.Take<int64_t>(rows),
                   .capacity = c.candidate_topk_blocks,
                   .block_size = c.candidate_block_size};
  ChooseBlocks(rows, context.context, &o->candidates);
  if (kind == SelectKind::kMakesCandidates) o->p.make_candidates = &o->candidates;
  if (kind == SelectKind::kInsideCandidates) o->p.restrict_to = &o->candidates;
}

std::shared_ptr<SelectOperands> MakeSelectOperands(const OpContext& context, SelectKind kind,
                                                   int64_t entries, int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto o = std::make_shared<SelectOperands>();
  const int64_t values = c.index_n_heads * c.index_head_dim;
  o->queries = o->memory.ActivationBF16(rows * values);
  o->head_weights = o->memory.ActivationBF16(rows * c.index_n_heads);
  auto* visible = o->memory.Take<int64_t>(rows);
  std::fill_n(visible, rows, entries);
  o->p = {.stream = context.stream,
          .rows = rows,
          .heads = c.index_n_heads,
          .width = c.index_head_dim,
          .topk = c.index_topk,
          .query = o->memory.Take<BF16>(rows * values),
          .head_weight = o->memory.Take<BF16>(rows * c.index_n_heads),
          .weight_scale = 1.0f / std::sqrt(static_cast<float>(values)),
          .rotation = MakeRotation(rows, c.qk_rope_head_dim, &o->memory),
          .query_format = kIndexFormat,
          .row_sequence = o->memory.Take<int32_t>(rows),
          .visible = visible,
          .selection = o->memory.Take<int32_t>(rows * c.index_topk)};
  AddCandidates(context, kind, rows, o.get());
  return o;
}

// Row r of a call belongs to sequence (r + round) % kSequences.
void TurnSequences(int64_t rows, int64_t round, const int32_t* row_sequence) {
  auto* out = const_cast<int32_t*>(row_sequence);  // made by this file, constant to the op
  for (int64_t r = 0; r < rows; ++r) out[r] = static_cast<int32_t>((r + round) % kSequences);
}

PreparedOp PrepareSelect(const OpContext& context, SelectKind kind, std::shared_ptr<Cache> keys,
                         int64_t entries, int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto o = MakeSelectOperands(context, kind, entries, rows);
  o->p.keys = keys->sequences.data();
  const auto run = [&ops = context.ops, o, keys](int64_t round) {
    const kernels::IndexSelectParams& p = o->p;
    TurnSequences(p.rows, round, p.row_sequence);
    std::copy_n(o->queries, p.rows * p.heads * p.width, p.query);
    std::copy_n(o->head_weights, p.rows * p.heads, p.head_weight);
    ops.index_select(p);
  };
  const int64_t scored = kind == SelectKind::kInsideCandidates
                             ? std::min(entries, c.candidate_topk_blocks * c.candidate_block_size)
                             : entries;
  const int64_t read = std::min(rows, kSequences);  // rows of one sequence share its keys
  const int64_t values = c.index_n_heads * c.index_head_dim;
  const int64_t bytes = read * scored * tensor::RowBytes(kIndexFormat, c.index_head_dim) +
                        rows * (values * 2 + c.index_topk * 4);
  return {run,
          {static_cast<double>(bytes),
           2.0 * static_cast<double>(rows) * static_cast<double>(scored * values)}};
}

Result<OpBenches> MakeSelect(const OpContext& context, SelectKind kind, int64_t entries,
                             std::string_view about) {
  const checkpoint::Config& c = context.config;
  TW_TRY(context.CheckFits(CacheBytes(kIndexFormat, entries, c.index_head_dim)));
  auto keys = std::make_shared<Cache>(kIndexFormat, entries, c.index_head_dim);
  return OpBenches{{.shape = fmt::format("{} entries, {}x{} top{}{}", entries, c.index_n_heads,
                                         c.index_head_dim, c.index_topk, about),
                    .peak = PeakKind::kBf16,
                    .bytes_per_row = c.index_n_heads * c.index_head_dim * 8 + entries * 16,
                    .prepare = [context, kind, keys, entries](int64_t rows) {
                      return PrepareSelect(context, kind, keys, entries, rows);
                    }}};
}

// Encoder: an entry for two tokens. Decoder: one for each, over all with the candidate blocks made
// on the way, or inside those blocks.
Result<OpBenches> IndexSelect(const OpContext& context) {
  OpBenches all;
  const auto add = [&](SelectKind kind, int64_t entries, std::string_view about) -> Status {
    TW_ASSIGN(OpBenches made, MakeSelect(context, kind, entries, about));
    all.push_back(std::move(made.front()));
    return {};
  };
  TW_TRY(add(SelectKind::kPlain, std::max<int64_t>(1, context.context / 2), ""));
  TW_TRY(add(SelectKind::kMakesCandidates, context.context, ", makes candidates"));
  TW_TRY(add(SelectKind::kInsideCandidates, context.context, ", inside candidates"));
  return all;
}

// --- Attention. ---

struct AttentionOperands {
  Memory memory;
  std::vector<kernels::WindowKeys> windows;
  kernels::AttentionParams p;
  const BF16* queries = nullptr;
  const int32_t* selections = nullptr;  // [kSelections, rows, topk]
};

// topk entries of each row, ascending, spread over the cache; -1 behind the last.
const int32_t* MakeSelections(int64_t rows, int64_t topk, int64_t entries, Memory* memory) {
  auto* out = memory->Take<int32_t>(kSelections * rows * topk);
  const int64_t kept = std::min(topk, entries);
  for (int64_t r = 0; r < kSelections * rows; ++r) {
    for (int64_t i = 0; i < topk; ++i) {
      const int64_t first = i * entries / kept;
      const int64_t room = (i + 1) * entries / kept - first;
      out[r * topk + i] = i < kept ? static_cast<int32_t>(first + (r * 31 + i) % room) : -1;
    }
  }
  return out;
}

void AddWindows(const OpContext& context, AttentionOperands* o) {
  const checkpoint::Config& c = context.config;
  const int64_t ring_rows = c.sliding_window + kBlockRows;
  const int64_t row_bytes = tensor::RowBytes(kWindowFormat, c.head_dim);
  auto* rings = o->memory.Take<uint8_t>(kSequences * ring_rows * row_bytes);
  FillRows(kWindowFormat, kSequences * ring_rows, c.head_dim, rings);
  for (int64_t s = 0; s < kSequences; ++s) {
    o->windows.push_back({.ring = rings + s * ring_rows * row_bytes,
                          .ring_rows = ring_rows,
                          .chunk_begin = context.context});
  }
}

std::shared_ptr<AttentionOperands> MakeAttentionOperands(const OpContext& context, int64_t entries,
                                                         int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto o = std::make_shared<AttentionOperands>();
  const int64_t values = c.num_attention_heads * c.head_dim;
  AddWindows(context, o.get());
  o->queries = o->memory.ActivationBF16(rows * values);
  o->selections = MakeSelections(rows, c.index_topk, entries, &o->memory);
  auto* window_end = o->memory.Take<int64_t>(rows);
  std::fill_n(window_end, rows, context.context - 1);
  o->p = {.stream = context.stream,
          .rows = rows,
          .heads = c.num_attention_heads,
          .width = c.head_dim,
          .window = c.sliding_window,
          .query = o->memory.Take<BF16>(rows * values),
          .rotation = MakeRotation(rows, c.qk_rope_head_dim, &o->memory),
          .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
          .sink = o->memory.Uniform(c.num_attention_heads, -1, 1),
          .row_sequence = o->memory.Take<int32_t>(rows),
          .window_end = window_end,
          .window_keys = o->windows.data(),
          .window_format = kWindowFormat,
          .topk = c.index_topk,
          .out = o->memory.Take<BF16>(rows * values)};
  return o;
}

PreparedOp PrepareAttention(const OpContext& context, std::shared_ptr<Cache> rows_of,
                            int64_t entries, int64_t rows) {
  const checkpoint::Config& c = context.config;
  auto o = MakeAttentionOperands(context, entries, rows);
  o->p.selected_rows = rows_of->sequences.data();
  const int64_t values = c.num_attention_heads * c.head_dim;
  const auto run = [&ops = context.ops, o, rows_of, values](int64_t round) {
    TurnSequences(o->p.rows, round, o->p.row_sequence);
    std::copy_n(o->queries, o->p.rows * values, o->p.query);
    o->p.selection = o->selections + round / kSequences % kSelections * o->p.rows * o->p.topk;
    ops.attention(o->p);
  };
  const int64_t window = std::min(c.sliding_window, context.context);
  const int64_t selected = std::min(c.index_topk, entries);
  const int64_t bytes = window * tensor::RowBytes(kWindowFormat, c.head_dim) +
                        selected * tensor::RowBytes(kMainFormat, c.head_dim) + values * 4;
  return {run,
          {static_cast<double>(rows * bytes),
           4.0 * static_cast<double>(rows) * static_cast<double>((window + selected) * values)}};
}

Result<OpBenches> Attention(const OpContext& context) {
  const checkpoint::Config& c = context.config;
  const int64_t entries = std::max<int64_t>(1, context.context / 2);
  TW_TRY(context.CheckFits(CacheBytes(kMainFormat, entries, c.head_dim)));
  auto cache = std::make_shared<Cache>(kMainFormat, entries, c.head_dim);
  return OpBenches{
      {.shape = fmt::format("{}x{}, window {} + {} of {}", c.num_attention_heads, c.head_dim,
                            c.sliding_window, c.index_topk, entries),
       .peak = PeakKind::kBf16,
       .bytes_per_row = c.num_attention_heads * c.head_dim * 8 + kSelections * c.index_topk * 4,
       .prepare = [context, cache, entries](int64_t rows) {
         return PrepareAttention(context, cache, entries, rows);
       }}};
}

constexpr OpEntry kOps[] = {{"window_rows", false, WindowRows},
                            {"pool", false, Pool},
                            {"store_rows", false, StoreRows},
                            {"index_select", false, IndexSelect},
                            {"attention", false, Attention}};

}  // namespace

std::span<const OpEntry> CacheOps() { return kOps; }

}  // namespace thalweg::tools::bench
