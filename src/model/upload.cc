#include "model/upload.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <unordered_set>
#include <vector>

#include "base/math.h"
#include "kernels/stored_bytes.h"
#include "model/expert_parallel.h"
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

void VisitTable(const Config& c, size_t number, EngramWeights* w, const Visit& visit) {
  const int64_t values = c.engram_num_embeddings[number] * c.engram_head_dim;
  VisitArray(&w->codes, values, visit);
  VisitArray(&w->scales, values / 32, visit);
}

// The tables of Engram, from which a step reads few rows.
void VisitTables(const Config& c, Weights* w, const Visit& visit) {
  size_t number = 0;
  for (LayerWeights& layer : w->layers) {
    if (layer.engram) VisitTable(c, number++, &*layer.engram, visit);
  }
}

void VisitEngram(const Config& c, EngramWeights* w, const Visit& visit) {
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

// Every tensor that is no matrix and no table of Engram.
void VisitVectors(const Config& c, Weights* w, const Visit& visit) {
  VisitArray(&w->embed, c.vocab_size * c.hidden_size, visit);
  VisitArray(&w->norm, c.hidden_size, visit);
  for (size_t i = 0; i < w->layers.size(); ++i) {
    LayerWeights& layer = w->layers[i];
    VisitLayer(c, c.Experts(static_cast<int64_t>(i) >= c.num_hidden_layers), &layer, visit);
    if (layer.engram) VisitEngram(c, &*layer.engram, visit);
  }
  if (!w->draft) return;
  VisitArray(&w->draft->main_norm, c.hidden_size, visit);
  VisitArray(&w->draft->norm, c.hidden_size, visit);
  VisitArray(&w->draft->markov_embed, c.vocab_size * c.dspark_markov_rank, visit);
}

int64_t Padded(int64_t bytes) { return base::RoundUp(bytes, tensor::kAlignBytes); }

using VisitAll = void (*)(const Config&, Weights*, const Visit&);

int64_t BytesOf(VisitAll visit_all, const Config& config, Weights* weights) {
  int64_t total = 0;
  visit_all(config, weights, [&](const void**, int64_t bytes) { total += Padded(bytes); });
  return total;
}

// Matrices of experts that other ranks compute: nothing of them is read.
std::unordered_set<Matrix*> OfOtherRanks(const ExpertParallel* group, Weights* weights) {
  std::unordered_set<Matrix*> others;
  for (size_t i = 0; group != nullptr && i < weights->layers.size(); ++i) {
    if (!group->Covers(static_cast<int>(i))) break;
    auto& experts = weights->layers[i].ffn.experts;
    for (size_t e = 0; e < experts.size(); ++e)
      if (!group->Holds(static_cast<int>(i), static_cast<int64_t>(e)))
        others.insert({&experts[e].w1, &experts[e].w2, &experts[e].w3});
  }
  return others;
}

std::vector<Matrix*> AllBut(const std::unordered_set<Matrix*>& others, Weights* weights) {
  std::vector<Matrix*> own = Matrices(weights);
  std::erase_if(own, [&](Matrix* m) { return others.contains(m); });
  return own;
}

// What the bound weights take on the device, tables of Engram aside.
int64_t BoundBytes(const Config& config, const kernels::Ops& ops,
                   const std::vector<Matrix*>& matrices, Weights* weights) {
  int64_t total = BytesOf(VisitVectors, config, weights);
  for (const Matrix* m : matrices) {
    const int64_t packed = ops.packed_bytes(*m);
    total += packed > 0 ? Padded(packed)
                        : Padded(kernels::CodeBytes(*m)) + Padded(kernels::ScaleBytes(*m));
  }
  return total;
}

// Hands out places in one buffer and fills them.
class Uploader {
 public:
  Uploader(const kernels::Ops& ops, const tensor::Stream& stream, std::byte* place)
      : ops_(ops), stream_(stream), next_(place) {}

  void Array(const void** tensor, int64_t count) {
    std::byte* to = Take(count);
    ops_.memory->upload(stream_, to, *tensor, count);
    *tensor = to;
  }

  void OfMatrix(Matrix* m) {
    const int64_t packed = ops_.packed_bytes(*m);
    if (packed > 0) {
      std::byte* to = Take(packed);
      ops_.pack(stream_, *m, to);
      *m = {
          .format = m->format, .rows = m->rows, .cols = m->cols, .packed = to, .inputs = m->inputs};
      return;
    }
    Array(&m->data, kernels::CodeBytes(*m));
    VisitArray(&m->scales, kernels::ScaleBytes(*m),
               [&](const void** tensor, int64_t bytes) { Array(tensor, bytes); });
  }

  std::byte* Take(int64_t count) {
    std::byte* at = next_;
    next_ += Padded(count);
    return at;
  }

 private:
  const kernels::Ops& ops_;
  tensor::Stream stream_;
  std::byte* next_;
};

// Tables go into pinned memory of the host.
void PinTables(const Config& config, const tensor::StepQueue& steps, Weights* weights,
               std::vector<tensor::Pinned>* pinned) {
  VisitTables(config, weights, [&](const void** tensor, int64_t bytes) {
    pinned->push_back(tensor::TakePinned(steps, bytes));
    std::memcpy(pinned->back().get(), *tensor, static_cast<size_t>(bytes));
    *tensor = pinned->back().get();
  });
}

// They come from other ranks, if they come.
void Forget(const std::unordered_set<Matrix*>& matrices) {
  for (Matrix* m : matrices) {
    m->data = nullptr;
    m->scales = nullptr;
  }
}

}  // namespace

Result<UploadedWeights> UploadWeights(const Config& config, const ModelOptions& options,
                                      const tensor::Stream& stream, int64_t others,
                                      Weights* weights, ExpertStore* store) {
  const kernels::Ops& ops = *options.ops;
  const std::unordered_set<Matrix*> elsewhere = OfOtherRanks(options.expert_parallel, weights);
  const std::vector<Matrix*> matrices = AllBut(elsewhere, weights);
  const int64_t blocks = PlanFreeBlocks(options, *weights, store);
  const int64_t bytes = BoundBytes(config, ops, matrices, weights) + blocks * store->block_bytes();
  const int64_t tables = BytesOf(VisitTables, config, weights);
  const int64_t free = ops.memory->free_bytes();
  const bool tables_fit = free < 0 || bytes + tables + others <= free;
  if (!tables_fit && (bytes + others > free || ops.memory->steps == nullptr)) {
    return base::ResourceExhausted(
        fmt::format("weights take {} bytes, tables of Engram {} and caches {}, but {} are free on "
                    "the device ({}): ask for less cache, fewer sequences or fewer rows",
                    bytes, tables, others, free, ops.memory->name));
  }
  UploadedWeights made;
  made.device = tensor::Buffer(bytes + (tables_fit ? tables : 0), *ops.memory);
  Uploader uploader(ops, stream, made.device.data());
  const Visit upload = [&](const void** tensor, int64_t count) { uploader.Array(tensor, count); };
  VisitVectors(config, weights, upload);
  if (tables_fit) {
    VisitTables(config, weights, upload);
  } else {
    PinTables(config, *ops.memory->steps, weights, &made.pinned);
  }
  for (Matrix* m : matrices) uploader.OfMatrix(m);
  for (int64_t i = 0; i < blocks; ++i) store->Add(uploader.Take(store->block_bytes()));
  if (blocks > 0) Forget(elsewhere);
  TW_TRY(ops.memory->synchronize(stream));
  return made;
}

}  // namespace thalweg::model
