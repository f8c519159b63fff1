#include "model/upload.h"

#include <fmt/format.h>

#include <functional>

#include "base/math.h"
#include "kernels/stored_bytes.h"
#include "model/packing.h"

namespace thalweg::model {
namespace {

using checkpoint::Config;

// Called with the place of a pointer to host memory and the bytes behind it.
using Visit = std::function<void(const void** tensor, int64_t bytes)>;

template <typename T>
void VisitArray(const T** array, int64_t count, const Visit& visit) {
  if (*array == nullptr) return;
  const void* tensor = *array;
  visit(&tensor, count * static_cast<int64_t>(sizeof(T)));
  *array = static_cast<const T*>(tensor);
}

void VisitHyper(const Config& c, HyperWeights* w, const Visit& visit) {
  VisitArray(&w->fn, c.HcCoefficients() * c.hc_mult * c.hidden_size, visit);
  VisitArray(&w->base, c.HcCoefficients(), visit);
  VisitArray(&w->scale, 3, visit);
}

void VisitAttention(const Config& c, AttentionWeights* w, const Visit& visit) {
  VisitArray(&w->q_norm, c.q_lora_rank, visit);
  VisitArray(&w->kv_norm, c.head_dim, visit);
  VisitArray(&w->sink, c.num_attention_heads, visit);
  if (!w->compressor) return;
  VisitArray(&w->compressor->norm, c.head_dim, visit);
  VisitArray(&w->compressor->index_k_norm, c.index_head_dim, visit);
}

void VisitEngram(const Config& c, size_t number, EngramWeights* w, const Visit& visit) {
  const int64_t values = c.engram_num_embeddings[number] * c.engram_head_dim;
  VisitArray(&w->codes, values, visit);
  VisitArray(&w->scales, values / 32, visit);
  VisitArray(&w->q_weight, c.hc_mult * c.hidden_size, visit);
  VisitArray(&w->k_weight, c.hc_mult * c.hidden_size, visit);
}

void VisitLayer(const Config& c, int64_t experts, LayerWeights* w, const Visit& visit) {
  VisitArray(&w->attn_norm, c.hidden_size, visit);
  VisitArray(&w->ffn_norm, c.hidden_size, visit);
  VisitHyper(c, &w->hc_attn, visit);
  VisitHyper(c, &w->hc_ffn, visit);
  VisitAttention(c, &w->attn, visit);
  VisitArray(&w->ffn.bias, experts, visit);
  VisitArray(&w->ffn.image_bias, experts, visit);
}

// Every tensor that is no matrix.
void VisitVectors(const Config& c, Weights* w, const Visit& visit) {
  VisitArray(&w->embed, c.vocab_size * c.hidden_size, visit);
  VisitArray(&w->norm, c.hidden_size, visit);
  size_t engrams = 0;
  for (size_t i = 0; i < w->layers.size(); ++i) {
    LayerWeights& layer = w->layers[i];
    VisitLayer(c, c.Experts(static_cast<int64_t>(i) >= c.num_hidden_layers), &layer, visit);
    if (layer.engram) VisitEngram(c, engrams++, &*layer.engram, visit);
  }
  if (!w->draft) return;
  VisitArray(&w->draft->main_norm, c.hidden_size, visit);
  VisitArray(&w->draft->norm, c.hidden_size, visit);
  VisitArray(&w->draft->markov_embed, c.vocab_size * c.dspark_markov_rank, visit);
}

int64_t Padded(int64_t bytes) { return base::RoundUp(bytes, tensor::kAlignBytes); }

// What the bound weights take on the device.
int64_t BoundBytes(const Config& config, const kernels::Ops& ops, Weights* weights) {
  int64_t total = 0;
  VisitVectors(config, weights, [&](const void**, int64_t bytes) { total += Padded(bytes); });
  for (const Matrix* m : Matrices(weights)) {
    const int64_t packed = ops.packed_bytes(*m);
    total += packed > 0 ? Padded(packed)
                        : Padded(kernels::CodeBytes(*m)) + Padded(kernels::ScaleBytes(*m));
  }
  return total;
}

}  // namespace

Result<tensor::Buffer> UploadWeights(const Config& config, const ModelOptions& options,
                                     const tensor::Stream& stream, int64_t others,
                                     Weights* weights) {
  const kernels::Ops& ops = *options.ops;
  const int64_t bytes = BoundBytes(config, ops, weights);
  const int64_t free = ops.memory->free_bytes();
  if (free >= 0 && bytes + others > free) {
    return base::ResourceExhausted(
        fmt::format("weights take {} bytes and caches {}, but {} are free on the device ({})",
                    bytes, others, free, ops.memory->name));
  }
  tensor::Buffer buffer(bytes, *ops.memory);
  std::byte* next = buffer.data();
  const auto take = [&](int64_t count) {
    std::byte* at = next;
    next += Padded(count);
    return at;
  };
  const Visit upload = [&](const void** tensor, int64_t count) {
    std::byte* to = take(count);
    ops.memory->upload(stream, to, *tensor, count);
    *tensor = to;
  };
  VisitVectors(config, weights, upload);
  for (Matrix* m : Matrices(weights)) {
    const int64_t packed = ops.packed_bytes(*m);
    if (packed > 0) {
      std::byte* to = take(packed);
      ops.pack(stream, *m, to);
      *m = {.format = m->format, .rows = m->rows, .cols = m->cols, .packed = to};
      continue;
    }
    upload(&m->data, kernels::CodeBytes(*m));
    VisitArray(&m->scales, kernels::ScaleBytes(*m), upload);
  }
  TW_TRY(ops.memory->synchronize(stream));
  return buffer;
}

}  // namespace thalweg::model
