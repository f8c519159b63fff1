// The Markov and confidence heads of the drafter (model.md 2.8).
#include <algorithm>
#include <vector>

#include "kernels/reference/bodies.h"

namespace thalweg::kernels::reference {

void Markov(const MarkovParams& p) {
  std::vector<float> embedded(static_cast<size_t>(p.rows * p.rank));
  for (int64_t r = 0; r < p.rows; ++r) {
    Widen(p.embed + p.previous[r] * p.rank, p.rank, embedded.data() + r * p.rank);
  }
  MultiplyRows(p.stream, p.head, embedded.data(), p.rows,
               [&](int64_t r, int64_t v, float correction) {
                 p.logits[r * p.logits_stride + v] += correction;
               });
  std::vector<float> joined(static_cast<size_t>(p.rows * (p.hidden + p.rank)));
  for (int64_t r = 0; r < p.rows; ++r) {
    float* row = joined.data() + r * (p.hidden + p.rank);
    Widen(p.state + r * p.state_stride, p.hidden, row);
    std::copy_n(embedded.data() + r * p.rank, p.rank, row + p.hidden);
  }
  MultiplyRows(p.stream, p.confidence, joined.data(), p.rows,
               [&](int64_t r, int64_t, float value) { p.confidence_out[r] = value; });
}

}  // namespace thalweg::kernels::reference
