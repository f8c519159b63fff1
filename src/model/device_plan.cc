#include "model/device_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/math.h"
#include "model/context_parallel.h"
#include "model/routed_experts.h"
#include "model/step_graphs.h"

namespace thalweg::model {
namespace {

using checkpoint::Config;

constexpr int64_t kPassRows = 8192;  // experts take so many rows at a time
constexpr int64_t kScoreBytes = int64_t{512}
                                << 20;  // index scores of a pass, and lists of the chosen
constexpr int64_t kHeadSums = int64_t{192} << 20;  // partial sums of attention over few rows
constexpr int64_t kListBytes = int64_t{64} << 20;
constexpr int64_t kRecordedKernelBytes = 8192;  // of a kernel in a recording
constexpr int64_t kKernelsPerLayer = 40;
constexpr int64_t kRecordings = 24;

// What the largest ops want of scratch memory. An op's own slot: experts of a pass, whose rows lie
// in groups of eight for wide tiles, or scores.
int64_t OpBytes(const Config& c, int64_t max_rows) {
  const int64_t pass = std::min(max_rows, kPassRows);
  const int64_t topk = std::max(c.num_experts_per_tok, c.dspark_num_experts_per_tok);
  const int64_t most = std::max(c.n_routed_experts, c.dspark_n_routed_experts);
  const int64_t places = pass * (topk + 1) + 8 * (std::min(most, pass * topk) + 1);
  const int64_t experts = places * (c.moe_intermediate_size + c.hidden_size + 64) * 2;
  return std::max({experts, max_rows * most * 4, kScoreBytes, kHeadSums});
}

// Input rows of a product in the order of wide tiles.
int64_t ProductBytes(const Config& c, int64_t max_rows) {
  const int64_t widest = std::max({c.hidden_size, c.num_attention_heads * c.head_dim,
                                   c.o_groups * c.o_lora_rank, c.q_lora_rank});
  return base::RoundUp(max_rows, int64_t{8}) * widest * 2;
}

// Partial sums of the coefficients of hyper-connections, of segments and chunks (kernels/cuda).
int64_t HeldBytes(const Config& c, int64_t max_rows) {
  constexpr int64_t kSegment = 128, kChunk = 24, kSumBytes = 32 * 4;
  return max_rows * base::CeilDiv(c.hc_mult * c.hidden_size, kSegment) *
         base::CeilDiv(c.HcCoefficients(), kChunk) * kSumBytes;
}

// A slot grows by a quarter at a time.
int64_t ScratchBytes(const Config& c, int64_t max_rows) {
  const int64_t bytes = OpBytes(c, max_rows) + ProductBytes(c, max_rows) + HeldBytes(c, max_rows);
  return bytes + bytes / 4;
}

int64_t ResultBytes(const Config& c, const ModelOptions& options) {
  const int64_t rows = std::min(kMostGraphRows, options.max_rows);
  return rows * c.vocab_size * static_cast<int64_t>(sizeof(float)) + rows * 8 +
         options.max_sequences * (1 + c.dspark_block_size) * 4;
}

// Messages between ranks that share the rows of prompts: compressed rows of all owners, and newest
// window rows of all layers, to and from each; the residual state of what the decoder runs at the
// cut, sent, come and staged.
int64_t SharedBytes(const Config& c, const ModelOptions& options,
                    const kvpool::Geometry& geometry) {
  if (options.context_ranks == 1) return 0;
  const int64_t rows = base::CeilDiv(options.max_rows, geometry.block_tokens);
  const int64_t each = rows * geometry.BlockBytes() + geometry.SlotBytes();
  const auto taps = static_cast<int64_t>(c.dspark_target_layer_ids.size());
  const int64_t state = (c.hc_mult * (4 + 4) + 2 * 2 + 2 * 2 * taps) * c.hidden_size;
  const int64_t kept = std::min(options.max_rows, 2 * c.sliding_window) * state;
  const int64_t bytes = 2 * (options.context_ranks - 1) * each + 3 * kept;
  return bytes + bytes / 4;
}

}  // namespace

Status CheckDeviceLimits(const Config& c, const ModelOptions& options) {
  if (options.ops == nullptr || options.ops->memory->host) return Status();
  const int64_t topk = std::max(c.num_experts_per_tok, c.dspark_num_experts_per_tok);
  const int64_t experts = std::max(c.n_routed_experts, c.dspark_n_routed_experts);
  const struct {
    std::string_view name;
    int64_t value, most;
  } limits[] = {{"head_dim", c.head_dim, 512},
                {"index_head_dim", c.index_head_dim, 256},
                {"num_experts_per_tok", topk, 32},
                {"n_routed_experts", experts, 1024},
                {"hc_mult", c.hc_mult, 8}};
  for (const auto& limit : limits) {
    if (limit.value <= limit.most) continue;
    return base::InvalidArgument(
        fmt::format("{} is {}, and kernels of the {} backend take at most {}; use --backend cpu",
                    limit.name, limit.value, options.ops->name, limit.most));
  }
  return Status();
}

int64_t DeviceWorkBytes(const Config& c, const ModelOptions& options,
                        const kvpool::Geometry& geometry, int64_t blocks) {
  if (options.ops == nullptr || options.ops->memory->steps == nullptr) return 0;
  const int64_t layers = c.num_hidden_layers + c.num_nextn_predict_layers;
  const int64_t recordings =
      options.graphs ? kRecordings * layers * kKernelsPerLayer * kRecordedKernelBytes : 0;
  const int64_t padding = geometry.SlotBytes() + geometry.BlockBytes();
  const int64_t others = options.context_ranks > 1 ? kContextCopies : 1;
  const int64_t tables =
      (options.max_sequences + others) * blocks * static_cast<int64_t>(sizeof(int32_t));
  const bool shares = options.expert_parallel != nullptr || options.expert_blocks > 0;
  const int64_t routed = shares ? RoutedBytes(c.hidden_size, c.num_experts_per_tok) : 0;
  return ScratchBytes(c, options.max_rows) + kListBytes + ResultBytes(c, options) + padding +
         tables + recordings + SharedBytes(c, options, geometry) + routed;
}

}  // namespace thalweg::model
