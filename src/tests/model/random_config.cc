#include "tests/model/random_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "checkpoint/engram_tables.h"

namespace thalweg::tests {
namespace {

using checkpoint::Config;

constexpr uint32_t kConfigPurpose = 1;
constexpr uint32_t kPromptPurpose = 2;

void DrawSizes(Draws* d, Config* c) {
  c->image_token_id = 3;
  c->vocab_size = d->Between(24, 70);
  c->hidden_size = d->OneOf({32, 64, 96});
  c->num_hidden_layers = d->Between(3, 8);
  c->max_position_embeddings = d->Between(280, 400);
  c->moe_intermediate_size = d->OneOf({32, 64});
  c->n_routed_experts = d->Between(2, 8);
  c->n_shared_experts = 1;
  c->num_experts_per_tok = d->Between(1, std::min<int64_t>(3, c->n_routed_experts));
  c->routed_scaling_factor = 0.5f * static_cast<float>(d->Between(1, 5));
  c->swiglu_limit = d->Chance(50) ? 10.0f : 1.0f;
  c->hc_mult = d->Between(2, 4);
  c->hc_sinkhorn_iters = d->OneOf({1, 2, 5, 20});
}

void DrawAttention(Draws* d, Config* c) {
  c->num_attention_heads = d->Between(1, 4);
  c->o_groups = c->num_attention_heads % 2 == 0 && d->Chance(60) ? 2 : 1;
  c->head_dim = d->OneOf({32, 64});
  c->index_head_dim = d->OneOf({32, 32, 64});
  c->qk_rope_head_dim = d->OneOf({8, 12, 16, 30, 32});
  c->q_lora_rank = d->OneOf({32, 64});
  c->o_lora_rank = 32;
  c->sliding_window = d->OneOf({4, 5, 6, 7, 8, 8, 9, 10, 13, 16, 24});
  c->rope_theta = static_cast<double>(d->OneOf({100, 10000}));
  c->compress_rope_theta = static_cast<double>(d->OneOf({500, 160000}));
  c->rope_scaling = {.factor = static_cast<double>(d->Between(1, 16)),
                     .beta_fast = 32,
                     .beta_slow = 1,
                     .original_max_position_embeddings = d->OneOf({16, 64, 300, 65536})};
}

void DrawIndex(Draws* d, Config* c) {
  c->index_n_heads = d->Between(1, 3);
  c->index_topk = d->Between(4, 16);
  c->candidate_block_size = d->OneOf({1, 2, 3, 4, 8});
  const int64_t size = c->candidate_block_size;
  c->candidate_topk_blocks = (c->index_topk + size + size - 1) / size + d->Between(0, 2);
}

// One layer behind the layers already drawn. `owned` is the ratio of the newest owner, 0 without.
int64_t DrawLayer(Draws* d, int64_t layer, int64_t owned, Config* c) {
  const int64_t begin = c->candidate_source_layer_id;
  const bool owner = layer == begin || (layer < begin && d->Chance(40));
  if (owner) {
    owned = layer == begin ? 1 : d->OneOf({1, 2, 2});
    c->kv_source_layer_ids.push_back(layer);
  }
  const int64_t ratio = !owner && d->Chance(20) ? 0 : owned;
  if (owner || (ratio > 0 && d->Chance(35))) c->index_source_layer_ids.push_back(layer);
  c->compress_ratios.push_back(ratio);
  return owned;
}

void DrawLayers(Draws* d, Config* c) {
  c->candidate_source_layer_id = d->Between(0, c->num_hidden_layers - 1);
  int64_t owned = 0;
  for (int64_t layer = 0; layer < c->num_hidden_layers; ++layer)
    owned = DrawLayer(d, layer, owned, c);
}

// `count` different layers, ascending.
std::vector<int64_t> DrawLayerIds(Draws* d, int64_t count, int64_t layers) {
  std::vector<int64_t> ids;
  while (static_cast<int64_t>(ids.size()) < std::min(count, layers)) {
    const int64_t layer = d->Between(0, layers - 1);
    if (std::ranges::find(ids, layer) == ids.end()) ids.push_back(layer);
  }
  std::ranges::sort(ids);
  return ids;
}

void DrawEngram(Draws* d, Config* c) {
  if (d->Chance(40)) return;
  c->engram_layer_ids = DrawLayerIds(d, d->Between(1, 2), c->num_hidden_layers);
  c->engram_max_ngram_size = d->Between(2, 4);
  c->engram_vocab_size = d->Between(10, 60);
  c->engram_n_heads = d->Between(1, 2);
  c->engram_head_dim = 32;
  c->engram_pad_token_id = 2;
  c->engram_compressed_vocab_size = c->vocab_size - d->Between(0, 15);
  c->engram_num_embeddings = checkpoint::EngramTableRows(*c);
}

void DrawDraft(Draws* d, Config* c) {
  if (d->Chance(30)) return;
  c->num_nextn_predict_layers = d->Between(1, 3);
  c->dspark_block_size = d->Between(2, 6);
  c->dspark_noise_token_id = 4;
  c->dspark_target_layer_ids = DrawLayerIds(d, d->Between(1, 3), c->num_hidden_layers);
  c->dspark_markov_rank = d->OneOf({8, 32});
  c->dspark_n_routed_experts = d->Between(2, 4);
  c->dspark_num_experts_per_tok = d->Between(1, 2);
  c->compress_ratios.resize(static_cast<size_t>(c->num_hidden_layers + c->num_nextn_predict_layers),
                            0);
}

}  // namespace

Config RandomConfig(uint64_t seed) {
  Draws draws(seed, kConfigPurpose);
  Config config;
  DrawSizes(&draws, &config);
  DrawAttention(&draws, &config);
  DrawIndex(&draws, &config);
  DrawLayers(&draws, &config);
  DrawEngram(&draws, &config);
  DrawDraft(&draws, &config);
  return config;
}

std::string Describe(const Config& c) {
  return fmt::format(
      "ratios [{}] owners [{}] index [{}] engram [{}] window {} topk {} pool {}x{} heads {} "
      "streams "
      "{} draft {}x{} taps [{}]",
      fmt::join(c.compress_ratios, " "), fmt::join(c.kv_source_layer_ids, " "),
      fmt::join(c.index_source_layer_ids, " "), fmt::join(c.engram_layer_ids, " "),
      c.sliding_window, c.index_topk, c.candidate_topk_blocks, c.candidate_block_size,
      c.num_attention_heads, c.hc_mult, c.num_nextn_predict_layers, c.dspark_block_size,
      fmt::join(c.dspark_target_layer_ids, " "));
}

Text RandomText(const Config& config, int64_t length, Draws* draws) {
  Text text;
  const bool images = draws->Chance(25);
  int64_t span = 0;
  for (int64_t i = 0; i < length; ++i) {
    if (images && span == 0 && draws->Chance(5)) span = draws->Between(1, 6);
    text.image.push_back(span > 0 ? 1 : 0);
    span = std::max<int64_t>(0, span - 1);
    // A few ids come often, so that n-grams and routes repeat.
    const int64_t id =
        draws->Chance(50) ? draws->Between(5, 9) : draws->Between(0, config.vocab_size - 1);
    text.ids.push_back(static_cast<int32_t>(id));
  }
  return text;
}

Text RandomPrompt(const Config& config, uint64_t seed, int64_t longest) {
  Draws draws(seed, kPromptPurpose);
  const int64_t window = config.sliding_window;
  int64_t length = draws.Between(1, longest);
  if (draws.Chance(15)) length = draws.Between(1, window);
  if (draws.Chance(25)) length = draws.Between(window + 1, 3 * window);
  return RandomText(config, std::min(length, longest), &draws);
}

}  // namespace thalweg::tests
