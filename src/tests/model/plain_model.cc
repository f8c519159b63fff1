#include "tests/model/plain_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "checkpoint/token_map.h"
#include "tensor/formats.h"
#include "tests/model/plain_state.h"

namespace thalweg::tests::plain {
namespace {

using tensor::DType;

float StoredValue(const tensor::View& view, int64_t i) {
  switch (view.dtype) {
    case DType::kF32: return view.as<float>()[i];
    case DType::kBF16: return tensor::ToFloat(view.as<tensor::BF16>()[i]);
    case DType::kF8E4M3: return tensor::E4M3ToFloat(view.as<uint8_t>()[i]);
    default: break;
  }
  // Two fp4 values a byte, the even one in the low nibble.
  const uint8_t pair = view.as<uint8_t>()[i / 2];
  return tensor::E2M1ToFloat(static_cast<uint8_t>(i % 2 == 0 ? pair & 15 : pair >> 4));
}

std::vector<float> Frequencies(double theta, int64_t dim) {
  std::vector<float> out;
  for (int64_t p = 0; p < dim / 2; ++p) {
    const float exponent = static_cast<float>(2 * p) / static_cast<float>(dim);
    out.push_back(1.0f / std::pow(static_cast<float>(theta), exponent));
  }
  return out;
}

// spec/model.md 2.4, with the clamps of small sizes.
std::vector<float> YarnFrequencies(const checkpoint::Config& c) {
  std::vector<float> out = Frequencies(c.compress_rope_theta, c.qk_rope_head_dim);
  const auto dim = static_cast<double>(c.qk_rope_head_dim);
  const auto pair = [&](double turns) {
    const auto original = static_cast<double>(c.rope_scaling.original_max_position_embeddings);
    return dim * std::log(original / (2 * std::numbers::pi * turns)) /
           (2 * std::log(c.compress_rope_theta));
  };
  const double low = std::max(std::floor(pair(c.rope_scaling.beta_fast)), 0.0);
  const double high = std::min(std::ceil(pair(c.rope_scaling.beta_slow)), dim - 1);
  // In fp32 like the angles: a last bit here tips roundings of everything that is rotated.
  const auto width = static_cast<float>(std::max(high - low, 0.001));
  for (size_t p = 0; p < out.size(); ++p) {
    const float ramp =
        std::clamp((static_cast<float>(p) - static_cast<float>(low)) / width, 0.0f, 1.0f);
    const float slow = out[p] / static_cast<float>(c.rope_scaling.factor);
    out[p] = slow * ramp + out[p] * (1 - ramp);
  }
  return out;
}

}  // namespace

Mask WindowMask(int64_t tokens, int64_t window, int64_t cut) {
  Mask mask(static_cast<size_t>(tokens), std::vector<uint8_t>(static_cast<size_t>(tokens), 0));
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t p = 0; p <= t; ++p) {
      const bool near = t - p < window;
      const bool cut_off = t >= cut && p < cut;
      mask[static_cast<size_t>(t)][static_cast<size_t>(p)] = near && !cut_off ? 1 : 0;
    }
  }
  return mask;
}

PlainModel::PlainModel(const checkpoint::Checkpoint& checkpoint)
    : checkpoint_(checkpoint),
      c_(checkpoint.config()),
      plans_(checkpoint::PlanLayers(c_)),
      plain_frequencies_(Frequencies(c_.rope_theta, c_.qk_rope_head_dim)),
      yarn_frequencies_(YarnFrequencies(c_)) {
  if (!c_.HasEngram()) return;
  tables_ = checkpoint::BuildEngramTables(c_).value();
  token_map_ = checkpoint::LoadTokenMap(checkpoint.dir(), c_).value().ids;
}

// Any stored tensor as floats, scales multiplied in (spec/model.md 3.3).
Table PlainModel::Weight(const std::string& name) const {
  const tensor::View view = checkpoint_.Get(name);
  const bool packed = view.dtype == DType::kI8;
  const int64_t rows = view.shape.rank() > 1 ? view.shape[0] : 1;
  const int64_t cols = view.shape.elements() / rows * (packed ? 2 : 1);
  Table out(rows, cols);
  for (int64_t i = 0; i < rows * cols; ++i) out.v[static_cast<size_t>(i)] = StoredValue(view, i);
  const bool scaled = packed || view.dtype == DType::kF8E4M3;
  if (!scaled) return out;
  const tensor::View scale =
      checkpoint_.Get(name.substr(0, name.size() - std::string("weight").size()) + "scale");
  const bool per_row = packed || name.ends_with("engram.embed.weight");
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < cols; ++k) {
      const int64_t at = (per_row ? r : r / 32) * (cols / 32) + k / 32;
      out.row(r)[k] *= std::ldexp(1.0f, scale.as<uint8_t>()[at] - 127);
    }
  }
  return out;
}

Table PlainModel::LayerWeight(int64_t layer, const std::string& name) const {
  return Weight(fmt::format("layers.{}.{}", layer, name));
}

void PlainModel::Embed(State* s) const {
  const Table embed = Weight("embed.weight");
  s->streams = Table(s->tokens, c_.hc_mult * c_.hidden_size);
  s->mix = Table(s->tokens, c_.hc_mult);
  for (int64_t t = 0; t < s->tokens; ++t) {
    const float* row = embed.row(s->text.ids[static_cast<size_t>(t)]);
    for (int64_t j = 0; j < c_.hc_mult; ++j)
      std::copy_n(row, c_.hidden_size, s->streams.row(t) + j * c_.hidden_size);
    s->mix.row(t)[0] = 1;
  }
}

// u = bf16(sum_j a_j X_j).
Table PlainModel::Collapse(const State& s) const {
  Table u(s.tokens, c_.hidden_size);
  for (int64_t t = 0; t < s.tokens; ++t) {
    for (int64_t k = 0; k < c_.hidden_size; ++k) {
      float sum = 0;
      for (int64_t j = 0; j < c_.hc_mult; ++j)
        sum += s.mix.row(t)[j] * s.streams.row(t)[j * c_.hidden_size + k];
      u.row(t)[k] = Bf16(sum);
    }
  }
  return u;
}

Output PlainModel::Run(const Text& text, int64_t cut) const {
  State s{.text = text, .tokens = text.size(), .cut = cut};
  Embed(&s);
  for (int64_t layer = 0; layer < c_.num_hidden_layers; ++layer) {
    if (plans_[static_cast<size_t>(layer)].engram) Engram(&s, layer);
    const Table attention_in = Enter(&s, layer, "attn");
    Leave(&s, Attention(&s, layer, attention_in));
    const Table ffn_in = Enter(&s, layer, "ffn");
    Leave(&s, Experts(layer, ffn_in, text.image));
  }
  s.out.logits =
      Multiply(RmsNorm(Collapse(s), Weight("norm.weight"), c_.rms_norm_eps), Weight("head.weight"));
  return std::move(s.out);
}

}  // namespace thalweg::tests::plain
