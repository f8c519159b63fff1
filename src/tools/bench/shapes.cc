#include "tools/bench/shapes.h"

#include <fmt/format.h>

#include <charconv>

namespace thalweg::tools::bench {
namespace {

constexpr size_t kMostCounts = 64;

std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Status CheckSide(std::string_view text, std::optional<int64_t> side) {
  if (side && *side >= 32 && *side <= kMostSide && *side % 32 == 0) return {};
  return base::InvalidArgument(fmt::format(
      "--shape is \"{}\", but must be released, nano or KxN with K inputs and N outputs, "
      "multiples of 32 up to {}",
      text, kMostSide));
}

void SetAttention(checkpoint::Config* c) {
  c->num_attention_heads = 64;
  c->head_dim = 512;
  c->qk_rope_head_dim = 64;
  c->q_lora_rank = 1280;
  c->o_lora_rank = 1024;
  c->o_groups = 8;
  c->sliding_window = 128;
  c->rope_theta = 10000;
  c->compress_rope_theta = 160000;
  c->rope_scaling = {
      .factor = 16, .beta_fast = 32, .beta_slow = 1, .original_max_position_embeddings = 65536};
  c->compress_ratios = {0, 0};
  c->compress_ratios.insert(c->compress_ratios.end(), 18, 2);
  c->compress_ratios.insert(c->compress_ratios.end(), 20, 1);
  c->compress_ratios.insert(c->compress_ratios.end(), 3, 0);
  c->kv_source_layer_ids = {2, 8, 14, 20};
  c->index_source_layer_ids = {2, 8, 14, 20, 24, 28, 32, 36};
  c->index_n_heads = 32;
  c->index_head_dim = 128;
  c->index_topk = 512;
  c->candidate_source_layer_id = 20;
  c->candidate_topk_blocks = 2048;
  c->candidate_block_size = 8;
}

void SetExpertsAndStreams(checkpoint::Config* c) {
  c->moe_intermediate_size = 2304;
  c->n_routed_experts = 384;
  c->n_shared_experts = 1;
  c->num_experts_per_tok = 6;
  c->routed_scaling_factor = 1.5f;
  c->swiglu_limit = 10;
  c->hc_mult = 4;
  c->hc_sinkhorn_iters = 20;
}

void SetEngramAndDraft(checkpoint::Config* c) {
  c->engram_layer_ids = {1, 14};
  c->engram_num_embeddings = {384006168, 384016682};
  c->engram_max_ngram_size = 4;
  c->engram_vocab_size = 16000000;
  c->engram_n_heads = 8;
  c->engram_head_dim = 256;
  c->engram_pad_token_id = 2;
  c->engram_compressed_vocab_size = 99092;
  c->num_nextn_predict_layers = 3;
  c->dspark_block_size = 5;
  c->dspark_noise_token_id = 128799;
  c->dspark_target_layer_ids = {37, 38, 39};
  c->dspark_markov_rank = 256;
  c->dspark_n_routed_experts = 128;
  c->dspark_num_experts_per_tok = 3;
}

}  // namespace

checkpoint::Config ReleasedConfig() {
  checkpoint::Config c;
  c.image_token_id = 129264;
  c.vocab_size = 129280;
  c.hidden_size = 5120;
  c.num_hidden_layers = 40;
  c.max_position_embeddings = 1048576;
  SetAttention(&c);
  SetExpertsAndStreams(&c);
  SetEngramAndDraft(&c);
  return c;
}

Result<BenchShape> ParseShape(std::string_view text, const std::filesystem::path& nano_folder) {
  BenchShape shape;
  if (text == "nano") {
    TW_ASSIGN(shape.config, checkpoint::Config::Load(nano_folder / "config.json"));
    shape.cold = false;
    return shape;
  }
  shape.config = ReleasedConfig();
  if (text == "released") return shape;
  const size_t cross = text.find('x');
  const bool pair = cross != std::string_view::npos;
  const auto in = pair ? ParseInteger(text.substr(0, cross)) : std::nullopt;
  const auto out = pair ? ParseInteger(text.substr(cross + 1)) : std::nullopt;
  TW_TRY(CheckSide(text, in));
  TW_TRY(CheckSide(text, out));
  shape.matrix = MatrixShape{*in, *out};
  return shape;
}

Result<std::vector<int64_t>> ParseCounts(std::string_view text, std::string_view what,
                                         int64_t most) {
  std::vector<int64_t> counts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const auto value = ParseInteger(text.substr(begin, comma - begin));
    if (!value || *value < 1 || *value > most || counts.size() == kMostCounts) {
      return base::InvalidArgument(fmt::format(
          "--{} is \"{}\", but must be at most {} numbers between 1 and {}, such as 1,8", what,
          text, kMostCounts, most));
    }
    counts.push_back(*value);
    begin = comma + 1;
  }
  return counts;
}

}  // namespace thalweg::tools::bench
