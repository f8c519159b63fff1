// Attention of the independent forward: compressed entries, their selection, and masked attention
// (spec/model.md 2.5).
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/model/plain_state.h"

namespace thalweg::tests::plain {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr int64_t kBlock = 64;

// One key of a row's list; null: the slot is empty.
using Slots = std::vector<const float*>;

// Online softmax over blocks of 64 slots with bf16 probabilities and a sink in the denominator.
void AttendOne(const Slots& slots, const float* q, int64_t width, float sink, float* out) {
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(width)));
  const auto count = static_cast<int64_t>(slots.size());
  float top = -1e30f;
  float denominator = 0;
  std::vector<float> sum(static_cast<size_t>(width), 0.0f);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    std::vector<std::pair<float, const float*>> keys;
    float new_top = top;
    for (int64_t i = begin; i < std::min(begin + kBlock, count); ++i) {
      const float* key = slots[static_cast<size_t>(i)];
      if (key == nullptr) continue;
      keys.emplace_back(static_cast<float>(DotProduct(q, key, width)) * scale, key);
      new_top = std::max(new_top, keys.back().first);
    }
    const float correction = std::exp(top - new_top);
    top = new_top;
    denominator *= correction;
    for (float& v : sum) v *= correction;
    for (const auto& [logit, key] : keys) {
      const float p = std::exp(logit - top);
      denominator += p;
      for (int64_t k = 0; k < width; ++k) sum[static_cast<size_t>(k)] += Bf16(p) * key[k];
    }
  }
  denominator += std::exp(sink - top);
  for (int64_t k = 0; k < width; ++k) out[k] = Bf16(sum[static_cast<size_t>(k)] / denominator);
}

void RotateRows(Table* x, int64_t width, const std::vector<float>& frequencies, int64_t step) {
  for (int64_t r = 0; r < x->rows; ++r) {
    for (int64_t at = 0; at < x->cols; at += width)
      Rotate(x->row(r) + at, width, r * step, frequencies, false);
  }
}

}  // namespace

// Pooled and normalised latents of all complete groups, before rotation.
Table PlainModel::Latents(int64_t layer, const Table& x) const {
  const Table wkv = LayerWeight(layer, "attn.compressor.wkv.weight");
  const Table norm = LayerWeight(layer, "attn.compressor.norm.weight");
  if (plans_[static_cast<size_t>(layer)].ratio == 1)
    return RmsNorm(MultiplyBf16(x, wkv), norm, c_.rms_norm_eps);
  const Table values = Multiply(x, wkv);
  const Table scores = Multiply(x, LayerWeight(layer, "attn.compressor.wgate.weight"));
  Table pooled(x.rows / 2, c_.head_dim);
  for (int64_t g = 0; g < pooled.rows; ++g) {
    for (int64_t k = 0; k < c_.head_dim; ++k) {
      const float s0 = scores.row(2 * g)[k];
      const float s1 = scores.row(2 * g + 1)[k];
      const float e0 = std::exp(s0 - std::max(s0, s1));
      const float e1 = std::exp(s1 - std::max(s0, s1));
      pooled.row(g)[k] =
          Bf16(e0 / (e0 + e1) * values.row(2 * g)[k] + e1 / (e0 + e1) * values.row(2 * g + 1)[k]);
    }
  }
  return RmsNorm(pooled, norm, c_.rms_norm_eps);
}

void PlainModel::Compress(State* s, int64_t layer, const Table& x) const {
  const int64_t ratio = plans_[static_cast<size_t>(layer)].ratio;
  Table latent = Latents(layer, x);
  Table keys = RmsNorm(MultiplyBf16(latent, LayerWeight(layer, "attn.indexer.wk.weight")),
                       LayerWeight(layer, "attn.indexer.k_norm.weight"), c_.rms_norm_eps);
  RotateRows(&keys, c_.index_head_dim, yarn_frequencies_, ratio);
  RotateRows(&latent, c_.head_dim, yarn_frequencies_, ratio);
  s->keys = QuantiseFp4Power(std::move(keys));
  s->entries = QuantiseFp4Scale(std::move(latent));
}

// Scores of everything visible to row t; -inf outside the candidate pool where that applies.
std::vector<float> PlainModel::Scores(const State& s, int64_t layer, int64_t t, const float* query,
                                      const float* weight) const {
  const checkpoint::LayerPlan& plan = plans_[static_cast<size_t>(layer)];
  std::vector<float> score;
  for (int64_t g = 0; g < (t + 1) / plan.ratio; ++g) {
    float sum = 0;
    for (int64_t h = 0; h < c_.index_n_heads; ++h) {
      const auto dot = static_cast<float>(
          DotProduct(query + h * c_.index_head_dim, s.keys.row(g), c_.index_head_dim));
      sum += Bf16(std::max(0.0f, Bf16(dot)) * weight[h]);
    }
    const auto& pool =
        plan.uses_candidates ? s.pool[static_cast<size_t>(t)] : std::vector<int64_t>{};
    const bool inside =
        !plan.uses_candidates || std::ranges::find(pool, g / c_.candidate_block_size) != pool.end();
    score.push_back(inside ? Bf16(sum) : kNever);
  }
  return score;
}

void PlainModel::Select(State* s, int64_t layer, const Table& x, const Table& q_low) const {
  Table query = MultiplyBf16(q_low, LayerWeight(layer, "attn.indexer.wq_b.weight"));
  RotateRows(&query, c_.index_head_dim, yarn_frequencies_, 1);
  query = QuantiseFp4Power(std::move(query));
  Table weight = MultiplyBf16(x, LayerWeight(layer, "attn.indexer.weights_proj.weight"));
  const auto constant =
      static_cast<float>(1 / std::sqrt(static_cast<double>(c_.index_head_dim * c_.index_n_heads)));
  for (float& w : weight.v) w = Bf16(w * constant);
  const bool makes_pool = plans_[static_cast<size_t>(layer)].makes_candidates;
  s->chosen.clear();
  if (makes_pool) s->pool.clear();
  for (int64_t t = 0; t < s->tokens; ++t) {
    const std::vector<float> score = Scores(*s, layer, t, query.row(t), weight.row(t));
    s->chosen.push_back(Best(score, c_.index_topk));
    if (!makes_pool) continue;
    std::vector<float> block(score.size() / static_cast<size_t>(c_.candidate_block_size) + 1,
                             kNever);
    for (size_t g = 0; g < score.size(); ++g) {
      float& best = block[g / static_cast<size_t>(c_.candidate_block_size)];
      best = std::max(best, score[g]);
    }
    block[(score.size() - 1) / static_cast<size_t>(c_.candidate_block_size)] =
        std::numeric_limits<float>::infinity();
    s->pool.push_back(Best(block, c_.candidate_topk_blocks));
  }
  s->out.chosen[layer] = s->chosen;
}

Table PlainModel::Attention(State* s, int64_t layer, const Table& x) const {
  const checkpoint::LayerPlan& plan = plans_[static_cast<size_t>(layer)];
  const std::vector<float>& frequencies = plan.ratio > 0 ? yarn_frequencies_ : plain_frequencies_;
  const auto weight = [&](const char* name) {
    return LayerWeight(layer, std::string("attn.") + name);
  };
  const Table quantised = QuantiseFp8(x);
  const Table q_low = QuantiseFp8(RmsNorm(MultiplyBf16(quantised, weight("wq_a.weight")),
                                          weight("q_norm.weight"), c_.rms_norm_eps));
  Table q = MultiplyBf16(q_low, weight("wq_b.weight"));
  RotateRows(&q, c_.head_dim, frequencies, 1);
  Table window = RmsNorm(MultiplyBf16(quantised, weight("wkv.weight")), weight("kv_norm.weight"),
                         c_.rms_norm_eps);
  RotateRows(&window, c_.head_dim, frequencies, 1);
  window = QuantiseFp8(std::move(window));
  if (plan.owns_kv) Compress(s, layer, x);
  if (plan.owns_index) Select(s, layer, x, q_low);

  const Mask mask = WindowMask(s->tokens, c_.sliding_window, plan.decoder ? s->cut : 0);
  const Table sink = weight("attn_sink");
  Table heads(s->tokens, c_.num_attention_heads * c_.head_dim);
  for (int64_t t = 0; t < s->tokens; ++t) {
    Slots slots(static_cast<size_t>(c_.sliding_window), nullptr);
    const int64_t first = std::max<int64_t>(0, t - c_.sliding_window + 1);
    for (int64_t p = first; p <= t; ++p) {
      if (mask[static_cast<size_t>(t)][static_cast<size_t>(p)] != 0)
        slots[static_cast<size_t>(p - first)] = window.row(p);
    }
    if (plan.ratio > 0) {
      for (const int64_t g : s->chosen[static_cast<size_t>(t)]) slots.push_back(s->entries.row(g));
    }
    for (int64_t h = 0; h < c_.num_attention_heads; ++h) {
      float* out = heads.row(t) + h * c_.head_dim;
      AttendOne(slots, q.row(t) + h * c_.head_dim, c_.head_dim, sink.v[static_cast<size_t>(h)],
                out);
      Rotate(out, c_.head_dim, t, frequencies, true);
    }
  }
  // Grouped output: group g takes its heads through its own rows of wo_a.
  const Table wo_a = weight("wo_a.weight");
  Table low(s->tokens, wo_a.rows);
  for (int64_t t = 0; t < s->tokens; ++t) {
    for (int64_t o = 0; o < wo_a.rows; ++o) {
      const float* in = heads.row(t) + o / c_.o_lora_rank * wo_a.cols;
      low.row(t)[o] = Bf16(static_cast<float>(DotProduct(in, wo_a.row(o), wo_a.cols)));
    }
  }
  return MultiplyBf16(QuantiseFp8(std::move(low)), weight("wo_b.weight"));
}

}  // namespace thalweg::tests::plain
