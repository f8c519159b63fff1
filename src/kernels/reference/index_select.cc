// Index scores, top-k selection and candidate blocks (model.md 2.5). Scores round where the
// published reference rounds: each head's dot product, its product with the head weight, and the
// sum over heads are bf16.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/reference/bodies.h"

namespace thalweg::kernels::reference {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// The `count` best of score[0..n), ties to the lowest index, returned in ascending order of index.
// Entries of -inf are never chosen.
std::vector<int32_t> Best(const std::vector<float>& score, int64_t count) {
  std::vector<int32_t> order(score.size());
  std::iota(order.begin(), order.end(), 0);
  const auto better = [&](int32_t a, int32_t b) {
    const float x = score[static_cast<size_t>(a)];
    const float y = score[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto middle = order.begin() + std::min<int64_t>(count, static_cast<int64_t>(order.size()));
  std::partial_sort(order.begin(), middle, order.end(), better);
  order.erase(middle, order.end());
  std::erase_if(order, [&](int32_t i) { return score[static_cast<size_t>(i)] == kNever; });
  std::sort(order.begin(), order.end());
  return order;
}

struct RowQuery {
  std::vector<float> q;       // [heads, width]
  std::vector<float> weight;  // [heads]
};

RowQuery PrepareQuery(const IndexSelectParams& p, int64_t row) {
  RowQuery out{std::vector<float>(static_cast<size_t>(p.heads * p.width)),
               std::vector<float>(static_cast<size_t>(p.heads))};
  const int64_t half = p.rotation.rope_dim / 2;
  for (int64_t h = 0; h < p.heads; ++h) {
    BF16* q = p.query + (row * p.heads + h) * p.width;
    Rotate(q, p.width, p.rotation.cos + row * half, p.rotation.sin + row * half,
           p.rotation.rope_dim, false);
    tensor::RoundTripRow(p.query_format, q, p.width, q);
    Widen(q, p.width, out.q.data() + h * p.width);
    BF16& w = p.head_weight[row * p.heads + h];
    w = tensor::ToBF16(ToFloat(w) * p.weight_scale);
    out.weight[static_cast<size_t>(h)] = ToFloat(w);
  }
  return out;
}

float Score(const IndexSelectParams& p, const RowQuery& query, const float* key) {
  float sum = 0;
  for (int64_t h = 0; h < p.heads; ++h) {
    const auto dot = static_cast<float>(Dot(query.q.data() + h * p.width, key, p.width));
    const float active = std::max(0.0f, tensor::RoundBF16(dot));
    sum += tensor::RoundBF16(active * query.weight[static_cast<size_t>(h)]);
  }
  return tensor::RoundBF16(sum);
}

// Scores of everything visible; outside `restrict_to` (when given) they stay -inf.
std::vector<float> ScoreRow(const IndexSelectParams& p, int64_t row, const RowQuery& query) {
  const PagedRows& keys = p.keys[p.row_sequence[row]];
  const int64_t visible = p.visible[row];
  std::vector<float> score(static_cast<size_t>(visible), kNever);
  std::vector<float> key(static_cast<size_t>(p.width));
  const auto fill = [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < std::min(end, visible); ++g) {
      tensor::DecodeRow(keys.format, keys.Row(g), p.width, key.data());
      score[static_cast<size_t>(g)] = Score(p, query, key.data());
    }
  };
  if (p.restrict_to == nullptr || p.restrict_to->count[row] < 0) {
    fill(0, visible);
    return score;
  }
  const CandidateSets& sets = *p.restrict_to;
  for (int64_t i = 0; i < sets.count[row]; ++i) {
    const int64_t block = sets.blocks[row * sets.capacity + i];
    fill(block * sets.block_size, (block + 1) * sets.block_size);
  }
  return score;
}

// The best blocks by their best score; the block of the newest entry is always in.
void MakeCandidates(const std::vector<float>& score, int64_t row, CandidateSets* sets) {
  const auto visible = static_cast<int64_t>(score.size());
  const int64_t blocks = (visible + sets->block_size - 1) / sets->block_size;
  if (blocks <= sets->capacity) {
    sets->count[row] = -1;
    return;
  }
  std::vector<float> best(static_cast<size_t>(blocks), kNever);
  for (int64_t g = 0; g < visible; ++g) {
    float& block = best[static_cast<size_t>(g / sets->block_size)];
    block = std::max(block, score[static_cast<size_t>(g)]);
  }
  best.back() = std::numeric_limits<float>::infinity();
  const std::vector<int32_t> chosen = Best(best, sets->capacity);
  std::copy(chosen.begin(), chosen.end(), sets->blocks + row * sets->capacity);
  sets->count[row] = static_cast<int64_t>(chosen.size());
}

}  // namespace

void IndexSelect(const IndexSelectParams& p) {
  p.stream.team->ParallelFor(p.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const RowQuery query = PrepareQuery(p, row);
      const std::vector<float> score = ScoreRow(p, row, query);
      if (p.make_candidates != nullptr) MakeCandidates(score, row, p.make_candidates);
      const std::vector<int32_t> chosen = Best(score, p.topk);
      int32_t* out = p.selection + row * p.topk;
      std::copy(chosen.begin(), chosen.end(), out);
      std::fill(out + chosen.size(), out + p.topk, -1);
    }
  });
}

}  // namespace thalweg::kernels::reference
