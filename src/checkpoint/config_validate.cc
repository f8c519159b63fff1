#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/config.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/limits.h"

namespace thalweg::checkpoint {
namespace {

using base::InvalidArgument;

// The rules. Each method holds the rules of one part; `c_` is the config in question.
class Validator {
 public:
  explicit Validator(const Config& config) : c_(config) {}

  Status Run() {
    TW_TRY(IntRanges());
    TW_TRY(RealRanges());
    TW_TRY(TokenIds());
    TW_TRY(Blocks());
    TW_TRY(Attention());
    TW_TRY(Experts());
    TW_TRY(Lists());
    TW_TRY(Sources());
    TW_TRY(Consumers());
    TW_TRY(Candidates());
    TW_TRY(Engram());
    TW_TRY(Draft());
    return Vision();
  }

 private:
  Status IntRanges() {
    Config copy = c_;
    for (const IntField& field : IntFields()) {
      if (!GroupPresent(field.group, c_)) continue;
      const int64_t value = field.member(copy);
      if (value >= field.min && value <= field.max) continue;
      const std::string path = FieldPath(field.group, field.name);
      if (field.min == field.max) {
        return InvalidArgument(fmt::format("{} is {}; it must be {}", path, value, field.min));
      }
      return InvalidArgument(
          fmt::format("{} is {}; it must be from {} to {}", path, value, field.min, field.max));
    }
    return {};
  }

  Status RealRanges() {
    Config copy = c_;
    for (const RealField& field : RealFields()) {
      if (!GroupPresent(field.group, c_)) continue;
      const double value =
          std::visit([&](auto member) { return static_cast<double>(member(copy)); }, field.member);
      // A float member holds the bound itself only to its own precision.
      if (value >= field.min * (1 - 1e-6) && value <= field.max * (1 + 1e-6)) continue;
      return InvalidArgument(fmt::format("{} is {}; it must be from {} to {}",
                                         FieldPath(field.group, field.name), value, field.min,
                                         field.max));
    }
    return {};
  }

  Status TokenIds() {
    Config copy = c_;
    for (const IntField& field : IntFields()) {
      const std::string_view name = field.name;
      if (!name.ends_with("_token_id") || !GroupPresent(field.group, c_)) continue;
      const int64_t id = field.member(copy);
      if (id < c_.vocab_size) continue;
      return InvalidArgument(fmt::format("{} is {}; token ids must be below vocab_size {}",
                                         FieldPath(field.group, field.name), id, c_.vocab_size));
    }
    return {};
  }

  static Status MultipleOf32(const char* name, int64_t value) {
    if (value % 32 == 0) return {};
    return InvalidArgument(
        fmt::format("text_config.{} is {}; it must be a multiple of 32, because quantised weights "
                    "share a scale per 32 columns",
                    name, value));
  }

  Status Blocks() {
    TW_TRY(MultipleOf32("hidden_size", c_.hidden_size));
    TW_TRY(MultipleOf32("moe_intermediate_size", c_.moe_intermediate_size));
    TW_TRY(MultipleOf32("head_dim", c_.head_dim));
    TW_TRY(MultipleOf32("q_lora_rank", c_.q_lora_rank));
    TW_TRY(MultipleOf32("o_lora_rank", c_.o_lora_rank));
    TW_TRY(MultipleOf32("index_head_dim", c_.index_head_dim));
    if (c_.HasEngram()) TW_TRY(MultipleOf32("engram_head_dim", c_.engram_head_dim));
    return {};
  }

  Status Attention() {
    const int64_t rope = c_.qk_rope_head_dim;
    if (rope % 2 != 0 || rope > c_.head_dim || rope > c_.index_head_dim) {
      return InvalidArgument(
          fmt::format("text_config.qk_rope_head_dim is {}; it must be even and at most head_dim {} "
                      "and index_head_dim {}, because the last channels of both are rotated in "
                      "pairs",
                      rope, c_.head_dim, c_.index_head_dim));
    }
    if (c_.num_attention_heads % c_.o_groups != 0) {
      return InvalidArgument(
          fmt::format("text_config.o_groups is {}; it must divide num_attention_heads {}",
                      c_.o_groups, c_.num_attention_heads));
    }
    if (c_.rope_scaling.beta_fast < c_.rope_scaling.beta_slow) {
      return InvalidArgument(
          fmt::format("text_config.rope_scaling.beta_fast is {}; it must be at least beta_slow {}",
                      c_.rope_scaling.beta_fast, c_.rope_scaling.beta_slow));
    }
    return {};
  }

  Status ExpertChoice(const char* name, int64_t chosen, int64_t experts) const {
    if (chosen <= experts) return {};
    return InvalidArgument(fmt::format("text_config.{} is {}; there are only {} routed experts",
                                       name, chosen, experts));
  }

  Status Experts() {
    TW_TRY(ExpertChoice("num_experts_per_tok", c_.num_experts_per_tok, c_.n_routed_experts));
    if (c_.HasDraft()) {
      TW_TRY(ExpertChoice("dspark_num_experts_per_tok", c_.dspark_num_experts_per_tok,
                          c_.dspark_n_routed_experts));
    }
    const int64_t draft = c_.HasDraft() ? c_.dspark_n_routed_experts : 0;
    const int64_t experts =
        c_.num_hidden_layers * c_.n_routed_experts + c_.num_nextn_predict_layers * draft;
    if (experts * 6 <= kMaxTensors) return {};
    return base::OutOfRange(fmt::format(
        "{} routed experts in all layers have {} tensors; the limit is {}; lower n_routed_experts",
        experts, experts * 6, kMaxTensors));
  }

  Status Ascending(const char* name, const std::vector<int64_t>& ids) const {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= c_.num_hidden_layers) {
        return InvalidArgument(fmt::format("text_config.{}[{}] is {}; layers are 0 to {}", name, i,
                                           ids[i], c_.num_hidden_layers - 1));
      }
      if (i > 0 && ids[i] <= ids[i - 1]) {
        return InvalidArgument(
            fmt::format("text_config.{} is [{}]; it must ascend without repetition", name,
                        fmt::join(ids, ", ")));
      }
    }
    return {};
  }

  Status Lists() {
    const int64_t layers = c_.num_hidden_layers + c_.num_nextn_predict_layers;
    if (static_cast<int64_t>(c_.compress_ratios.size()) != layers) {
      return InvalidArgument(fmt::format(
          "text_config.compress_ratios has {} entries; it needs {}: {} layers and {} draft stages",
          c_.compress_ratios.size(), layers, c_.num_hidden_layers, c_.num_nextn_predict_layers));
    }
    for (size_t i = 0; i < c_.compress_ratios.size(); ++i) {
      const int64_t ratio = c_.compress_ratios[i];
      const bool draft = static_cast<int64_t>(i) >= c_.num_hidden_layers;
      if (ratio >= 0 && ratio <= (draft ? 0 : 2)) continue;
      return InvalidArgument(fmt::format("text_config.compress_ratios[{}] is {}; it must be {}", i,
                                         ratio, draft ? "0 for a draft stage" : "0, 1 or 2"));
    }
    TW_TRY(Ascending("kv_source_layer_ids", c_.kv_source_layer_ids));
    TW_TRY(Ascending("index_source_layer_ids", c_.index_source_layer_ids));
    TW_TRY(Ascending("engram_layer_ids", c_.engram_layer_ids));
    if (!c_.HasDraft()) return {};
    return Ascending("dspark_target_layer_ids", c_.dspark_target_layer_ids);
  }

  int64_t Ratio(int64_t layer) const { return c_.compress_ratios[static_cast<size_t>(layer)]; }

  Status Sources() {
    if (c_.kv_source_layer_ids.empty()) {
      return InvalidArgument(
          "text_config.kv_source_layer_ids is empty; at least the first decoder layer must own KV");
    }
    for (const int64_t id : c_.index_source_layer_ids) {
      if (Ratio(id) > 0) continue;
      return InvalidArgument(
          fmt::format("layer {} is in text_config.index_source_layer_ids, but its compress ratio "
                      "is 0: it has nothing to select from",
                      id));
    }
    for (const int64_t id : c_.kv_source_layer_ids) {
      if (std::ranges::binary_search(c_.index_source_layer_ids, id)) continue;
      return InvalidArgument(
          fmt::format("layer {} is in text_config.kv_source_layer_ids but not in "
                      "index_source_layer_ids; an owner of KV must also select",
                      id));
    }
    return {};
  }

  // Every layer with a ratio reads the KV of the last source at or before it.
  Status Consumers() {
    for (int64_t layer = 0; layer < c_.num_hidden_layers; ++layer) {
      if (Ratio(layer) == 0) continue;
      const auto next = std::ranges::upper_bound(c_.kv_source_layer_ids, layer);
      if (next == c_.kv_source_layer_ids.begin()) {
        return InvalidArgument(
            fmt::format("layer {} has compress ratio {}, but no layer of "
                        "text_config.kv_source_layer_ids comes at or before it",
                        layer, Ratio(layer)));
      }
      const int64_t owner = *(next - 1);
      if (Ratio(owner) == Ratio(layer)) continue;
      return InvalidArgument(
          fmt::format("layer {} has compress ratio {}, but reads the KV of layer {} with ratio {}; "
                      "they must be equal",
                      layer, Ratio(layer), owner, Ratio(owner)));
    }
    return {};
  }

  Status Candidates() {
    const int64_t source = c_.candidate_source_layer_id;
    if (source != c_.kv_source_layer_ids.back()) {
      return InvalidArgument(
          fmt::format("text_config.candidate_source_layer_id is {}; it must be the last of "
                      "kv_source_layer_ids, {}: the first decoder layer",
                      source, c_.kv_source_layer_ids.back()));
    }
    if (Ratio(source) != 1) {
      return InvalidArgument(fmt::format(
          "the candidate source, layer {}, has compress ratio {}; the decoder's must be 1", source,
          Ratio(source)));
    }
    const int64_t pool = c_.candidate_topk_blocks * c_.candidate_block_size;
    if (pool >= c_.index_topk + c_.candidate_block_size) return {};
    return InvalidArgument(fmt::format(
        "text_config.index_topk is {}; the candidate pool of {} blocks of {} allows at most {}, "
        "because one block may hold positions that are not visible yet",
        c_.index_topk, c_.candidate_topk_blocks, c_.candidate_block_size,
        pool - c_.candidate_block_size));
  }

  Status Engram() {
    if (!c_.HasEngram()) return {};
    if (c_.engram_num_embeddings.size() != c_.engram_layer_ids.size()) {
      return InvalidArgument(fmt::format(
          "text_config.engram_num_embeddings has {} entries for {} layers in engram_layer_ids",
          c_.engram_num_embeddings.size(), c_.engram_layer_ids.size()));
    }
    const int64_t most = 2 * kMaxEngramVocab * c_.EngramColumns();
    for (const int64_t rows : c_.engram_num_embeddings) {
      if (rows >= 1 && rows <= most) continue;
      return InvalidArgument(fmt::format(
          "text_config.engram_num_embeddings has {}; table rows must be from 1 to {}", rows, most));
    }
    if (c_.engram_compressed_vocab_size <= c_.vocab_size) return {};
    return InvalidArgument(
        fmt::format("text_config.engram_compressed_vocab_size is {}; folding tokens together "
                    "cannot give more than vocab_size {}",
                    c_.engram_compressed_vocab_size, c_.vocab_size));
  }

  Status Draft() {
    if (!c_.HasDraft() || !c_.dspark_target_layer_ids.empty()) return {};
    return InvalidArgument(
        "text_config.dspark_target_layer_ids is empty; the draft module needs taps to read");
  }

  Status Vision() {
    if (!c_.HasVision()) return {};
    const VisionConfig& v = c_.vision;
    if (v.hidden_size % v.num_attention_heads != 0 ||
        v.hidden_size / v.num_attention_heads % 4 != 0) {
      return InvalidArgument(fmt::format(
          "vision_config.hidden_size {} over num_attention_heads {} must give a multiple of 4 "
          "channels a head, because rows and columns rotate pairs of them",
          v.hidden_size, v.num_attention_heads));
    }
    if (!v.max_wh_ratio || (*v.max_wh_ratio >= 1 && std::isfinite(*v.max_wh_ratio))) return {};
    return InvalidArgument(fmt::format(
        "vision_config.max_wh_ratio is {}; it must be null or at least 1", *v.max_wh_ratio));
  }

  const Config& c_;
};

}  // namespace

Status Validate(const Config& config) { return Validator(config).Run(); }

}  // namespace thalweg::checkpoint
