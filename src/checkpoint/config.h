// The released nested config.json as a plain struct, every field validated with the reason
// (spec/model.md 1.1), and what follows from it: the layer plan (1.3), the KV bytes of a token
// (4.1) and the parameters that are active per token (2.7).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thalweg::checkpoint {

// YaRN of the layers with compressed KV (spec/model.md 2.4).
struct RopeScaling {
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  int64_t original_max_position_embeddings = 0;
};

// The vision tower and aligner (spec/model.md 2.9). num_hidden_layers == 0: the config has none.
struct VisionConfig {
  int64_t num_hidden_layers = 0;
  int64_t hidden_size = 0;
  int64_t num_attention_heads = 0;
  int64_t intermediate_size = 0;
  int64_t patch_size = 0;
  double rope_theta = 10000;
  int64_t downsample_ratio = 0;
  int64_t max_image_tokens = 0;
  int64_t min_pixels = 0;
  std::optional<double> max_wh_ratio;
};

// Members carry the names of config.json; text_config is flattened, vision_config is `vision`.
struct Config {
  // Top level.
  int64_t bos_token_id = 0;
  int64_t eos_token_id = 1;
  int64_t pad_token_id = 2;
  int64_t image_token_id = 0;

  // text_config: sizes.
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t max_position_embeddings = 0;
  float rms_norm_eps = 1e-20f;

  // Attention.
  int64_t num_attention_heads = 0;
  int64_t head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t q_lora_rank = 0;
  int64_t o_lora_rank = 0;
  int64_t o_groups = 0;
  int64_t sliding_window = 0;
  double rope_theta = 10000;
  double compress_rope_theta = 160000;
  RopeScaling rope_scaling;

  // Compressed KV and its index.
  std::vector<int64_t> compress_ratios;         // target layers, then draft layers
  std::vector<int64_t> kv_source_layer_ids;     // ascending; the last one begins the decoder
  std::vector<int64_t> index_source_layer_ids;  // ascending; holds every KV source
  int64_t index_n_heads = 0;
  int64_t index_head_dim = 0;
  int64_t index_topk = 0;
  int64_t candidate_source_layer_id = 0;  // == kv_source_layer_ids.back()
  int64_t candidate_topk_blocks = 0;
  int64_t candidate_block_size = 0;

  // Mixture of experts.
  int64_t moe_intermediate_size = 0;
  int64_t n_routed_experts = 0;
  int64_t n_shared_experts = 0;  // 1
  int64_t num_experts_per_tok = 0;
  float routed_scaling_factor = 1;
  float swiglu_limit = 0;

  // Hyper-connections.
  int64_t hc_mult = 0;
  int64_t hc_sinkhorn_iters = 0;
  float hc_eps = 1e-6f;

  // Engram. No layer ids: the model has none.
  std::vector<int64_t> engram_layer_ids;       // ascending
  std::vector<int64_t> engram_num_embeddings;  // table rows, one per Engram layer
  int64_t engram_max_ngram_size = 0;
  int64_t engram_vocab_size = 0;
  int64_t engram_n_heads = 0;
  int64_t engram_head_dim = 0;
  int64_t engram_pad_token_id = 0;
  int64_t engram_compressed_vocab_size = 0;

  // DSpark draft module. num_nextn_predict_layers == 0: the model has none.
  int64_t num_nextn_predict_layers = 0;
  int64_t dspark_block_size = 0;
  int64_t dspark_noise_token_id = 0;
  std::vector<int64_t> dspark_target_layer_ids;  // ascending
  int64_t dspark_markov_rank = 0;
  int64_t dspark_n_routed_experts = 0;
  int64_t dspark_num_experts_per_tok = 0;

  VisionConfig vision;

  // Reads and validates a config.json. The error names the field, its value and the rule.
  static Result<Config> Load(const std::filesystem::path& config_json);
  // The same from text; `what` names the document in messages.
  static Result<Config> Parse(std::string_view json, std::string_view what = "config.json");

  bool HasEngram() const { return !engram_layer_ids.empty(); }
  bool HasDraft() const { return num_nextn_predict_layers > 0; }
  bool HasVision() const { return vision.num_hidden_layers > 0; }

  // The first decoder layer: the last KV source (spec/model.md 2.7).
  int DecoderBegin() const { return static_cast<int>(kv_source_layer_ids.back()); }
  // Columns of an Engram lookup, order-major and head-minor: (max n-gram - 1) * heads.
  int64_t EngramColumns() const { return (engram_max_ngram_size - 1) * engram_n_heads; }
  // Coefficients of one hyper-connection: hc_mult pre, hc_mult post, hc_mult^2 combine.
  int64_t HcCoefficients() const { return (2 + hc_mult) * hc_mult; }
  // Routed experts, and experts chosen per token, of a target (false) or draft (true) layer.
  int64_t Experts(bool draft) const { return draft ? dspark_n_routed_experts : n_routed_experts; }
  int64_t TopExperts(bool draft) const {
    return draft ? dspark_num_experts_per_tok : num_experts_per_tok;
  }
};

// The rules that tie fields together; Parse calls it, and so does code that builds a Config itself.
Status Validate(const Config& config);

// The released nested layout, as Parse reads it back (floats to full precision).
std::string ToJson(const Config& config);

enum class LayerMode {
  kWindowOnly,  // ratio 0: sliding window alone
  kFull,        // owns compressed KV and index keys, selects over everything visible
  kReindex,     // own index queries over the owner's keys (in the candidate pool, if there is one)
  kReuse,       // takes the selection of its index source
};
std::string_view LayerModeName(LayerMode mode);

// What one layer is. Layer ids are those of config.json; draft stages follow the target layers.
struct LayerPlan {
  int ratio = 0;  // tokens per compressed entry; 0: none
  LayerMode mode = LayerMode::kWindowOnly;
  int kv_owner = -1;        // layer whose compressed KV and index keys are read; -1 none
  int index_source = -1;    // layer whose selection is used (itself for kFull, kReindex); -1 none
  bool owns_kv = false;     // has compressor, index key projection
  bool owns_index = false;  // has index queries: kFull and kReindex
  bool makes_candidates = false;  // the candidate source
  bool uses_candidates = false;   // selects inside the candidate pool: kReindex after the source
  bool engram = false;
  int engram_index = -1;  // position in engram_layer_ids; -1 none
  int tap_index = -1;     // position in dspark_target_layer_ids; -1 none
  bool decoder = false;   // target layer >= DecoderBegin()
  bool draft = false;     // stage of the draft module
};

// Target layers, then draft stages (spec/model.md 1.3). The config must be valid.
std::vector<LayerPlan> PlanLayers(const Config& config);

// Bytes of global KV a token costs on average: every owner's FP4 main row and index row over its
// ratio (spec/model.md 4.1). 890 for the release.
double KvBytesPerToken(const Config& config);
// Bytes of the sliding windows of one sequence, all layers and draft stages (spec/model.md 4.2).
int64_t WindowBytesPerSequence(const Config& config);

// Parameters that touch one token (spec/model.md 2.7): attention, chosen and shared experts,
// router, hyper-connections and Engram projections of the encoder (prefill) or of all layers with
// the head (decode). 7.86e9 and 16.07e9 for the release.
struct ActiveParameters {
  int64_t prefill = 0;
  int64_t decode = 0;
};
ActiveParameters CountActiveParameters(const Config& config);

// generation_config.json: the sampling that the model's makers recommend.
struct GenerationDefaults {
  bool do_sample = false;  // false: greedy, whatever temperature says
  double temperature = 1;
  double top_p = 1;
  int64_t top_k = 0;  // 0: no limit
  double min_p = 0;
  double repetition_penalty = 1;
  std::vector<int64_t> eos_token_ids;  // empty: config.json's

  // Reads DIR/generation_config.json; a missing file gives the defaults above.
  static Result<GenerationDefaults> Load(const std::filesystem::path& dir);
  static Result<GenerationDefaults> Parse(std::string_view json);
};

}  // namespace thalweg::checkpoint
