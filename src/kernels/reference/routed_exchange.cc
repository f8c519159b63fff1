#include "kernels/routed_exchange.h"

#include <algorithm>
#include <vector>

#include "tensor/row_format.h"

namespace thalweg::kernels {
namespace {

int32_t* ChoicesOf(const OfferShape& shape, uint8_t* offer) {
  return reinterpret_cast<int32_t*>(offer + shape.choices_at());
}
const int32_t* ChoicesOf(const OfferShape& shape, const uint8_t* offer) {
  return reinterpret_cast<const int32_t*>(offer + shape.choices_at());
}

void OfferRows(const OfferRowsParams& p) {
  const OfferShape& shape = p.shape;
  int32_t* chosen = ChoicesOf(shape, p.out);
  auto* weights = reinterpret_cast<float*>(chosen + shape.pairs());
  for (int64_t row = 0; row < shape.capacity; ++row) {
    const bool counts = row < p.rows && row < *p.live;
    if (counts)
      tensor::EncodeRow(shape.format, p.x + row * shape.width, shape.width,
                        p.out + row * shape.row_bytes());
    for (int64_t i = row * shape.topk; i < (row + 1) * shape.topk; ++i) {
      chosen[i] = counts ? p.chosen[i] : -1;
      weights[i] = counts ? p.weights[i] : 0;
      if (counts && p.counts != nullptr) ++p.counts[chosen[i]];
    }
  }
}

void RoutePair(const RouteRowsParams& p, int64_t rank, int64_t at) {
  const OfferShape& shape = p.shape;
  const uint8_t* offer = rank == p.self ? p.own : p.came + rank * shape.bytes();
  const int32_t* chosen = ChoicesOf(shape, offer);
  const auto* weights = reinterpret_cast<const float*>(chosen + shape.pairs());
  const int64_t row = at / shape.topk, pair = rank * shape.pairs() + at;
  const int32_t expert = chosen[at];
  int64_t slot = -1;
  if (expert >= 0) {
    const int32_t* slots = p.slots + p.slot_begin[expert];
    slot = slots[(rank + row) % (p.slot_begin[expert + 1] - p.slot_begin[expert])];
  }
  const bool mine = slot >= 0 && slot / p.slots_per_rank == p.self;
  p.chosen[pair] = static_cast<int32_t>(mine ? slot % p.slots_per_rank : p.slots_per_rank);
  p.weights[pair] = mine ? weights[at] : 0;
  if (rank == p.self)
    p.holder[at] = static_cast<int32_t>(slot < 0 ? p.self : slot / p.slots_per_rank);
  if (!mine) return;
  BF16* out = p.out + pair * shape.width;
  if (rank == p.self) {
    std::copy_n(p.x + row * shape.width, shape.width, out);
  } else {
    std::vector<float> values(static_cast<size_t>(shape.width));
    tensor::DecodeRow(shape.format, offer + row * shape.row_bytes(), shape.width, values.data());
    std::transform(values.begin(), values.end(), out, tensor::ToBF16);
  }
}

void RouteRows(const RouteRowsParams& p) {
  for (int64_t rank = 0; rank < p.ranks; ++rank)
    for (int64_t at = 0; at < p.shape.pairs(); ++at) RoutePair(p, rank, at);
}

void SumRouted(const SumRoutedParams& p) {
  const OfferShape& shape = p.shape;
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t c = 0; c < shape.width; ++c) {
      float sum = 0;
      for (int64_t at = row * shape.topk; at < (row + 1) * shape.topk; ++at) {
        const int64_t rank = p.holder[at];
        const BF16* results = rank == p.self ? p.own : p.came;
        sum += tensor::ToFloat(results[(rank * shape.pairs() + at) * shape.width + c]);
      }
      const int64_t at = row * shape.width + c;
      p.out[at] = tensor::ToBF16(sum + tensor::ToFloat(p.shared[at]));
    }
  }
}

}  // namespace

const RoutedExchange& ReferenceRoutedExchange() {
  static const RoutedExchange ops = {OfferRows, RouteRows, SumRouted,
                                     [](const Stream&) -> void* { return nullptr; },
                                     [](const Stream&) { return true; }};
  return ops;
}

}  // namespace thalweg::kernels
