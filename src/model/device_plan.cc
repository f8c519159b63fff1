#include "model/device_plan.h"

#include <algorithm>

#include "model/step_graphs.h"

namespace thalweg::model {
namespace {

using checkpoint::Config;

constexpr int64_t kPassRows = 4096;  // experts take so many rows at a time
constexpr int64_t kScoreBytes = int64_t{512}
                                << 20;  // index scores of a pass, and lists of the chosen
constexpr int64_t kHeadSums = int64_t{192} << 20;  // partial sums of attention over few rows
constexpr int64_t kListBytes = int64_t{64} << 20;
constexpr int64_t kRecordedKernelBytes = 8192;  // of a kernel in a recording
constexpr int64_t kKernelsPerLayer = 40;
constexpr int64_t kRecordings = 24;

// The op slot of scratch memory is as large as its widest user wants it, and grows by a quarter at
// a time.
int64_t ScratchBytes(const Config& c, int64_t max_rows) {
  const int64_t pass = std::min(max_rows, kPassRows);
  const int64_t topk = std::max(c.num_experts_per_tok, c.dspark_num_experts_per_tok);
  const int64_t experts =
      pass * (topk + 1) * (2 * c.moe_intermediate_size + c.hidden_size + 64) * 2;
  const int64_t gate = max_rows * std::max(c.n_routed_experts, c.dspark_n_routed_experts) * 4;
  const int64_t mixes =
      max_rows * (c.hc_mult * c.hidden_size / 1024 + 1) * (c.HcCoefficients() + 1) * 8;
  const int64_t widest = std::max({experts, gate, mixes, kScoreBytes, kHeadSums});
  return widest + widest / 4;
}

int64_t ResultBytes(const Config& c, const ModelOptions& options) {
  const int64_t rows = std::min(kMostGraphRows, options.max_rows);
  return rows * c.vocab_size * static_cast<int64_t>(sizeof(float)) + rows * 8 +
         options.max_sequences * (1 + c.dspark_block_size) * 4;
}

}  // namespace

int64_t DeviceWorkBytes(const Config& c, const ModelOptions& options,
                        const kvpool::Geometry& geometry, int64_t blocks) {
  if (options.ops == nullptr || options.ops->memory->steps == nullptr) return 0;
  const int64_t layers = c.num_hidden_layers + c.num_nextn_predict_layers;
  const int64_t recordings =
      options.graphs ? kRecordings * layers * kKernelsPerLayer * kRecordedKernelBytes : 0;
  const int64_t padding = geometry.SlotBytes() + geometry.BlockBytes();
  const int64_t tables =
      (options.max_sequences + 1) * blocks * static_cast<int64_t>(sizeof(int32_t));
  return ScratchBytes(c, options.max_rows) + kListBytes + ResultBytes(c, options) + padding +
         tables + recordings;
}

}  // namespace thalweg::model
