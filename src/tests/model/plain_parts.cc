// Hyper-connections, Engram and experts of the independent forward.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/model/plain_state.h"

namespace thalweg::tests::plain {
namespace {

// Divides every row (or column) of an n x n matrix by its sum + eps.
void Normalise(float* m, int64_t n, bool rows, float eps) {
  for (int64_t i = 0; i < n; ++i) {
    const auto at = [&](int64_t j) { return rows ? i * n + j : j * n + i; };
    float sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += m[at(j)];
    for (int64_t j = 0; j < n; ++j) m[at(j)] /= sum + eps;
  }
}

// spec/model.md 2.2: softmax over rows, columns, then iterations - 1 pairs of passes.
void Sinkhorn(float* m, int64_t n, int64_t iterations, float eps) {
  for (int64_t k = 0; k < n; ++k) {
    float* row = m + k * n;
    const float top = *std::max_element(row, row + n);
    float sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += row[j] = std::exp(row[j] - top);
    for (int64_t j = 0; j < n; ++j) row[j] = row[j] / sum + eps;
  }
  Normalise(m, n, false, eps);
  for (int64_t i = 1; i < iterations; ++i) {
    Normalise(m, n, true, eps);
    Normalise(m, n, false, eps);
  }
}

float InverseRms(const float* x, int64_t n, float eps) {
  return 1.0f / std::sqrt(static_cast<float>(DotProduct(x, x, n) / static_cast<double>(n)) + eps);
}

}  // namespace

Table PlainModel::Enter(State* s, int64_t layer, const std::string& site) const {
  const int64_t n = c_.hc_mult;
  const Table scale = LayerWeight(layer, "hc_" + site + "_scale");
  const Table base = LayerWeight(layer, "hc_" + site + "_base");
  const Table raw = Multiply(s->streams, LayerWeight(layer, "hc_" + site + "_fn"));
  s->next_mix = Table(s->tokens, n);
  s->post = Table(s->tokens, n);
  s->comb = Table(s->tokens, n * n);
  for (int64_t t = 0; t < s->tokens; ++t) {
    const float inverse = InverseRms(s->streams.row(t), s->streams.cols, c_.rms_norm_eps);
    const auto value = [&](int64_t i, int part) {
      return raw.row(t)[i] * inverse * scale.v[static_cast<size_t>(part)] +
             base.v[static_cast<size_t>(i)];
    };
    for (int64_t j = 0; j < n; ++j) {
      s->next_mix.row(t)[j] = Sigmoid(value(j, 0)) + c_.hc_eps;
      s->post.row(t)[j] = 2 * Sigmoid(value(n + j, 1));
    }
    for (int64_t i = 0; i < n * n; ++i) s->comb.row(t)[i] = value(2 * n + i, 2);
    Sinkhorn(s->comb.row(t), n, c_.hc_sinkhorn_iters, c_.hc_eps);
  }
  return RmsNorm(Collapse(*s), LayerWeight(layer, site + "_norm.weight"), c_.rms_norm_eps);
}

void PlainModel::Leave(State* s, const Table& update) const {
  const int64_t n = c_.hc_mult;
  const Table old = s->streams;
  for (int64_t t = 0; t < s->tokens; ++t) {
    for (int64_t i = 0; i < n * c_.hidden_size; ++i) {
      const int64_t j = i / c_.hidden_size;
      const int64_t k = i % c_.hidden_size;
      float mixed = 0;
      for (int64_t from = 0; from < n; ++from)
        mixed += s->comb.row(t)[from * n + j] * old.row(t)[from * c_.hidden_size + k];
      s->streams.row(t)[i] = Bf16(s->post.row(t)[j] * update.row(t)[k] + mixed);
    }
  }
  s->mix = s->next_mix;
}

// spec/model.md 2.3: rows of one token, order-major.
std::vector<int64_t> PlainModel::EngramRows(const State& s, const checkpoint::EngramTable& table,
                                            int64_t t) const {
  std::vector<uint64_t> ids;
  bool blocked = false;
  for (int64_t back = 0; back < c_.engram_max_ngram_size; ++back) {
    const int64_t p = t - back;
    blocked = blocked || p < 0 || s.text.image[static_cast<size_t>(p)] != 0;
    const int64_t id = blocked ? c_.engram_pad_token_id : s.text.ids[static_cast<size_t>(p)];
    ids.push_back(static_cast<uint64_t>(token_map_[static_cast<size_t>(id)]));
  }
  std::vector<int64_t> rows;
  for (size_t gram = 2; gram <= ids.size(); ++gram) {
    uint64_t hash = 0;
    for (size_t i = 0; i < gram; ++i) hash ^= ids[i] * static_cast<uint64_t>(table.multipliers[i]);
    for (int64_t head = 0; head < c_.engram_n_heads; ++head) {
      const size_t column = rows.size();
      rows.push_back(static_cast<int64_t>(hash % static_cast<uint64_t>(table.primes[column])) +
                     table.offsets[column]);
    }
  }
  return rows;
}

void PlainModel::Engram(State* s, int64_t layer) const {
  const auto which = static_cast<size_t>(plans_[static_cast<size_t>(layer)].engram_index);
  const Table embed = LayerWeight(layer, "engram.embed.weight");
  const int64_t width = c_.engram_head_dim;
  Table z(s->tokens, c_.EngramColumns() * width);
  for (int64_t t = 0; t < s->tokens; ++t) {
    float* to = z.row(t);
    for (const int64_t row : EngramRows(*s, tables_[which], t))
      to = std::copy_n(embed.row(row), width, to);
  }
  const Table kv = MultiplyBf16(QuantiseFp8(z), LayerWeight(layer, "engram.wkv.weight"));
  const Table q_weight = LayerWeight(layer, "engram.q_weight");
  const Table k_weight = LayerWeight(layer, "engram.k_weight");
  const int64_t d = c_.hidden_size;
  for (int64_t t = 0; t < s->tokens; ++t) {
    if (s->text.image[static_cast<size_t>(t)] != 0) continue;
    for (int64_t j = 0; j < c_.hc_mult; ++j) {
      float* x = s->streams.row(t) + j * d;
      const float* key = kv.row(t) + j * d;
      std::vector<float> weighted(static_cast<size_t>(d));
      for (int64_t k = 0; k < d; ++k)
        weighted[static_cast<size_t>(k)] = x[k] * (q_weight.row(j)[k] * k_weight.row(j)[k]);
      const auto product = static_cast<float>(DotProduct(weighted.data(), key, d));
      const float dot = product * InverseRms(x, d, c_.rms_norm_eps) *
                        InverseRms(key, d, c_.rms_norm_eps) *
                        static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
      const float gate = Sigmoid(std::copysign(std::sqrt(std::max(std::fabs(dot), 1e-6f)), dot));
      for (int64_t k = 0; k < d; ++k) x[k] = Bf16(x[k] + gate * kv.row(t)[c_.hc_mult * d + k]);
    }
  }
}

// w2(weight * silu(min(w1 x, limit)) * clamp(w3 x)), one weight per row.
Table PlainModel::Expert(const std::string& prefix, const Table& x,
                         const std::vector<float>& weight) const {
  const Table gate = MultiplyBf16(x, Weight(prefix + ".w1.weight"));
  const Table up = MultiplyBf16(x, Weight(prefix + ".w3.weight"));
  Table h(gate.rows, gate.cols);
  for (int64_t r = 0; r < h.rows; ++r) {
    for (int64_t k = 0; k < h.cols; ++k) {
      const float g = std::min(gate.row(r)[k], c_.swiglu_limit);
      const float u = std::clamp(up.row(r)[k], -c_.swiglu_limit, c_.swiglu_limit);
      h.row(r)[k] = Bf16(g * Sigmoid(g) * u * weight[static_cast<size_t>(r)]);
    }
  }
  return MultiplyBf16(QuantiseFp8(std::move(h)), Weight(prefix + ".w2.weight"));
}

Table PlainModel::Experts(int64_t layer, const Table& x, const std::vector<uint8_t>& image) const {
  const std::string prefix = "layers." + std::to_string(layer) + ".ffn.";
  const Table z = Multiply(x, Weight(prefix + "gate.weight"));
  const Table text_bias = Weight(prefix + "gate.bias");
  const Table image_bias = Weight(prefix + "gate.bias_vl");
  const auto rows = static_cast<size_t>(x.rows);
  // weights[e][t]: the routing weight of a row, 0 where the expert is not chosen.
  std::vector<std::vector<float>> weights(static_cast<size_t>(c_.n_routed_experts),
                                          std::vector<float>(rows, 0.0f));
  for (int64_t t = 0; t < x.rows; ++t) {
    std::vector<float> score, biased;
    const Table& bias = image[static_cast<size_t>(t)] != 0 ? image_bias : text_bias;
    for (int64_t e = 0; e < z.cols; ++e) {
      const float logit = z.row(t)[e];
      score.push_back(std::sqrt(logit > 20 ? logit : std::log1p(std::exp(logit))));
      biased.push_back(score.back() + bias.v[static_cast<size_t>(e)]);
    }
    const std::vector<int64_t> best = Best(biased, c_.num_experts_per_tok);
    float sum = 0;
    for (const int64_t e : best) sum += score[static_cast<size_t>(e)];
    for (const int64_t e : best) {
      weights[static_cast<size_t>(e)][static_cast<size_t>(t)] =
          score[static_cast<size_t>(e)] / (sum + 1e-20f) * c_.routed_scaling_factor;
    }
  }
  const Table quantised = QuantiseFp8(x);
  Table y(x.rows, x.cols);
  for (int64_t e = 0; e < c_.n_routed_experts; ++e) {
    const Table part =
        Expert(prefix + "experts." + std::to_string(e), quantised, weights[static_cast<size_t>(e)]);
    for (size_t i = 0; i < y.v.size(); ++i) y.v[i] += part.v[i];
  }
  const Table shared = Expert(prefix + "shared_experts", quantised, std::vector<float>(rows, 1.0f));
  for (size_t i = 0; i < y.v.size(); ++i) y.v[i] = Bf16(y.v[i] + shared.v[i]);
  return y;
}

}  // namespace thalweg::tests::plain
