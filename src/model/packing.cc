#include "model/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/machine.h"
#include "base/math.h"
#include "checkpoint/expected.h"
#include "model/expert_parallel.h"

namespace thalweg::model {
namespace {

using kernels::WeightFormat;

constexpr int64_t kSpareBytes = 256 << 20;

struct Piece {
  Matrix* matrix = nullptr;
  int64_t offset = 0;  // in the arena
  int64_t bytes = 0;
};

struct Layout {
  std::vector<Piece> pieces;  // ascending offsets
  int64_t bytes = 0;
  // Behind the pieces: blocks for experts that come later.
  ExpertStore store = {};
  int64_t first_block = 0;
  int64_t blocks = 0;

  int64_t packed_bytes() const { return blocks > 0 ? first_block : bytes; }
};

// Matrices of experts that other ranks compute: nothing of them is read.
std::unordered_set<const Matrix*> OfOtherRanks(const ModelOptions& options, Weights* weights) {
  std::unordered_set<const Matrix*> out;
  const ExpertParallel* group = options.expert_parallel;
  for (size_t i = 0; group != nullptr && i < weights->layers.size(); ++i) {
    if (!group->Covers(static_cast<int>(i))) break;
    auto& experts = weights->layers[i].ffn.experts;
    for (size_t e = 0; e < experts.size(); ++e)
      if (!group->Holds(static_cast<int>(i), static_cast<int64_t>(e)))
        out.insert({&experts[e].w1, &experts[e].w2, &experts[e].w3});
  }
  return out;
}

void PlanBlocks(const ModelOptions& options, const Weights& weights, Layout* layout) {
  layout->first_block = layout->bytes;
  layout->blocks = PlanFreeBlocks(options, weights, &layout->store);
  layout->bytes += layout->blocks * layout->store.block_bytes();
}

Layout PlanArena(const ModelOptions& options, Weights* weights) {
  Layout layout;
  const std::unordered_set<const Matrix*> others = OfOtherRanks(options, weights);
  for (Matrix* matrix : Matrices(weights)) {
    const int64_t bytes = options.ops->packed_bytes(*matrix);
    if (bytes == 0 || others.contains(matrix)) continue;
    layout.pieces.push_back({matrix, layout.bytes, bytes});
    layout.bytes += base::RoundUp(bytes, tensor::kAlignBytes);
  }
  PlanBlocks(options, *weights, &layout);
  return layout;
}

ExpertStore FillStore(Layout layout, std::byte* arena) {
  for (int64_t i = 0; i < layout.blocks; ++i)
    layout.store.Add(arena + layout.first_block + i * layout.store.block_bytes());
  return std::move(layout.store);
}

void PackPiece(const ModelOptions& options, const Piece& piece, std::byte* arena) {
  std::byte* out = arena + piece.offset;
  options.ops->pack({.team = options.team}, *piece.matrix, out);
  piece.matrix->packed = out;
}

// Matrices that are a good part of one member's share are packed by the whole team, one after
// another; the others by one member each, shared out by bytes.
void PackPieces(const ModelOptions& options, const Layout& layout, std::byte* arena) {
  const int64_t large = layout.packed_bytes() / (4 * options.team->size());
  for (const Piece& piece : layout.pieces) {
    if (piece.bytes > large) PackPiece(options, piece, arena);
  }
  options.team->ParallelFor(layout.packed_bytes(), 1, [&](int64_t begin, int64_t end) {
    const auto at = [](const Piece& piece, int64_t offset) { return piece.offset < offset; };
    const auto& all = layout.pieces;
    auto piece = std::lower_bound(all.begin(), all.end(), begin, at);
    for (; piece != all.end() && piece->offset < end; ++piece) {
      if (piece->bytes <= large) PackPiece(options, *piece, arena);
    }
  });
}

void AddFeedForward(FeedForward* f, std::vector<Matrix*>* out) {
  out->insert(out->end(), {&f->w1, &f->w3, &f->w2});
}

void AddAttention(AttentionWeights* a, std::vector<Matrix*>* out) {
  if (a->compressor) {
    CompressorWeights& c = *a->compressor;
    out->push_back(&c.wkv);
    if (c.wgate.data != nullptr) out->push_back(&c.wgate);
    out->push_back(&c.index_wk);
  }
  out->insert(out->end(), {&a->wq_a, &a->wkv, &a->wq_b});
  if (a->indexer) out->insert(out->end(), {&a->indexer->wq_b, &a->indexer->weights_proj});
  out->insert(out->end(), {&a->wo_a, &a->wo_b});
}

void AddLayer(LayerWeights* layer, std::vector<Matrix*>* out) {
  if (layer->engram) out->push_back(&layer->engram->wkv);
  AddAttention(&layer->attn, out);
  out->push_back(&layer->ffn.gate);
  for (FeedForward& expert : layer->ffn.experts) AddFeedForward(&expert, out);
  AddFeedForward(&layer->ffn.shared, out);
}

// The tensors that BindWeights binds as matrices, among those a config comes with: "x.weight" of
// two dimensions, without the tables that rows are looked up in.
bool IsMatrix(const checkpoint::ExpectedTensor& tensor) {
  return tensor.shape.rank() == 2 && tensor.name.ends_with(".weight") &&
         !tensor.name.ends_with("embed.weight") && tensor.category != checkpoint::Category::kVision;
}

Matrix ShapeOf(const checkpoint::ExpectedTensor& tensor) {
  Matrix m{.format = FormatOf(tensor.dtype), .rows = tensor.shape[0], .cols = tensor.shape[1]};
  if (m.format == WeightFormat::kFp4) m.cols *= 2;
  return m;
}

// Of what all routed experts of the target take: that of so many; 0: all.
int64_t ExpertShare(const checkpoint::Config& config, int64_t bytes, int64_t expert_blocks) {
  const int64_t all = config.num_hidden_layers * config.n_routed_experts;
  return expert_blocks == 0 ? bytes : bytes / all * expert_blocks;
}

}  // namespace

std::vector<Matrix*> Matrices(Weights* weights) {
  std::vector<Matrix*> out;
  for (LayerWeights& layer : weights->layers) AddLayer(&layer, &out);
  out.push_back(&weights->head);
  if (weights->draft) {
    DraftHeadWeights& d = *weights->draft;
    out.insert(out.end(), {&d.main_proj, &d.markov_head, &d.confidence});
  }
  return out;
}

int64_t PackedBytes(const checkpoint::Config& config, const kernels::Ops& ops, bool draft,
                    int64_t expert_blocks) {
  int64_t bytes = 0, experts = 0;
  for (const checkpoint::ExpectedTensor& tensor : checkpoint::ExpectedTensors(config)) {
    if (!IsMatrix(tensor) || (tensor.draft && !draft)) continue;
    const int64_t packed = base::RoundUp(ops.packed_bytes(ShapeOf(tensor)), tensor::kAlignBytes);
    (tensor.expert >= 0 && !tensor.draft ? experts : bytes) += packed;
  }
  return bytes + ExpertShare(config, experts, expert_blocks);
}

int64_t UploadedBytes(const checkpoint::Config& config, const kernels::Ops& ops,
                      int64_t expert_blocks) {
  int64_t bytes = 0, experts = 0;
  for (const checkpoint::ExpectedTensor& tensor : checkpoint::ExpectedTensors(config)) {
    if (tensor.category == checkpoint::Category::kVision) continue;
    const int64_t packed = IsMatrix(tensor) ? ops.packed_bytes(ShapeOf(tensor)) : 0;
    (tensor.expert >= 0 && !tensor.draft ? experts : bytes) +=
        packed > 0 ? base::RoundUp(packed, tensor::kAlignBytes) : tensor.bytes();
  }
  return bytes + ExpertShare(config, experts, expert_blocks);
}

int64_t PlanFreeBlocks(const ModelOptions& options, const Weights& weights, ExpertStore* store) {
  const ExpertParallel* group = options.expert_parallel;
  if (group == nullptr || !options.experts_move) return 0;
  *store = ExpertStore(*options.ops, weights.layers.front().ffn.experts.front());
  if (store->block_bytes() == 0) return 0;
  const parallel::Placement& placement = group->placement();
  const auto layers = static_cast<int64_t>(placement.layers.size());
  int64_t held = 0;
  for (int64_t layer = 0; layer < layers; ++layer)
    for (int64_t e = 0; e < placement.shape.experts; ++e)
      held += group->Holds(static_cast<int>(layer), e) ? 1 : 0;
  return (layers + 1) * placement.shape.slots_per_rank - held;
}

bool FitsInto(int64_t free, int64_t packed, int64_t others) {
  return packed <= free - others - free / 8 - kSpareBytes;
}

Result<tensor::LargeBuffer> PackWeights(const ModelOptions& options, int64_t others,
                                        Weights* weights, ExpertStore* store) {
  if (options.repack == Repack::kNever) return tensor::LargeBuffer();
  Layout layout = PlanArena(options, weights);
  if (layout.bytes == 0) return tensor::LargeBuffer();
  const int64_t free = base::FreeMemoryBytes();
  if (options.repack == Repack::kAuto && !FitsInto(free, layout.bytes, others))
    return tensor::LargeBuffer();
  if (free >= 0 && layout.bytes + others > free) {
    return base::ResourceExhausted(
        fmt::format("repacked weights take {} bytes and caches {}, but {} are free: use --repack "
                    "auto or never",
                    layout.bytes, others, free));
  }
  TW_ASSIGN(tensor::LargeBuffer arena, tensor::LargeBuffer::Allocate(layout.bytes));
  PackPieces(options, layout, arena.data());
  *store = FillStore(std::move(layout), arena.data());
  return arena;
}

}  // namespace thalweg::model
