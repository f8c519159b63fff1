// Rows of a step that all ranks give one another, with what they chose.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/routed_exchange.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// OfferShape in the numbers that kernels count with.
struct Offer {
  RowFormat format;
  int capacity, topk, pairs;
  int64_t width, row_bytes, choices_at, bytes;
};

Offer OfferOf(const OfferShape& s) {
  return {.format = s.format,
          .capacity = static_cast<int>(s.capacity),
          .topk = static_cast<int>(s.topk),
          .pairs = static_cast<int>(s.pairs()),
          .width = s.width,
          .row_bytes = s.row_bytes(),
          .choices_at = s.choices_at(),
          .bytes = s.bytes()};
}

// A block a row of the capacity.
__global__ void OfferKernel(const OfferRowsParams p, const Offer shape) {
  const int row = static_cast<int>(blockIdx.x);
  const bool counts = row < min(p.rows, static_cast<int64_t>(*p.live));
  auto* chosen = reinterpret_cast<int32_t*>(p.out + shape.choices_at);
  auto* weights = reinterpret_cast<float*>(chosen + shape.pairs);
  for (int k = static_cast<int>(threadIdx.x); k < shape.topk; k += kThreads) {
    const int at = row * shape.topk + k;
    chosen[at] = counts ? p.chosen[at] : -1;
    weights[at] = counts ? p.weights[at] : 0;
    if (counts && p.counts != nullptr)
      atomicAdd(reinterpret_cast<unsigned long long*>(p.counts) + p.chosen[at], 1ull);
  }
  if (!counts) return;
  const BF16* x = p.x + row * shape.width;
  uint8_t* out = p.out + row * shape.row_bytes;
  ForColumns(shape.width, [&](int64_t c, bool active) {
    const Coded coded = QuantiseLane(shape.format, active ? Wide(x[c]) : 0.0f);
    StoreCoded(shape.format, coded, c, shape.width, active, out);
  });
}

// A block a pair.
__global__ void RouteKernel(const RouteRowsParams p, const Offer shape) {
  const int pair = static_cast<int>(blockIdx.x);
  const int rank = pair / shape.pairs, at = pair % shape.pairs, row = at / shape.topk;
  const bool home = rank == p.self;
  const uint8_t* offer = home ? p.own : p.came + rank * shape.bytes;
  const auto* chosen = reinterpret_cast<const int32_t*>(offer + shape.choices_at);
  const auto* weights = reinterpret_cast<const float*>(chosen + shape.pairs);
  const int32_t expert = chosen[at];
  const int each = static_cast<int>(p.slots_per_rank);
  int slot = -1;
  if (expert >= 0) {
    const int first = p.slot_begin[expert];
    slot = p.slots[first + (rank + row) % (p.slot_begin[expert + 1] - first)];
  }
  const bool mine = slot >= 0 && slot / each == p.self;
  if (threadIdx.x == 0) {
    p.chosen[pair] = mine ? slot % each : each;
    p.weights[pair] = mine ? weights[at] : 0;
    if (home) p.holder[at] = slot < 0 ? static_cast<int32_t>(p.self) : slot / each;
  }
  if (!mine) return;
  BF16* out = p.out + pair * shape.width;
  const BF16* own = p.x + row * shape.width;
  const uint8_t* codes = offer + row * shape.row_bytes;
  for (int64_t c = threadIdx.x; c < shape.width; c += kThreads)
    out[c] = home ? own[c] : Narrow(DecodeValue(shape.format, codes, shape.width, c));
}

__global__ void SumRoutedKernel(const SumRoutedParams p, const Offer shape) {
  const int64_t row = blockIdx.x;
  const int32_t* holder = p.holder + row * shape.topk;
  for (int64_t c = threadIdx.x; c < shape.width; c += kThreads) {
    float sum = 0;
    for (int k = 0; k < shape.topk; ++k) {
      const BF16* results = holder[k] == p.self ? p.own : p.came;
      const int64_t at = int64_t{holder[k]} * shape.pairs + row * shape.topk + k;
      sum += Wide(results[at * shape.width + c]);
    }
    p.out[row * shape.width + c] = Narrow(sum + Wide(p.shared[row * shape.width + c]));
  }
}

void OfferRows(const OfferRowsParams& p) {
  Queue& queue = QueueOf(p.stream);
  OfferKernel<<<Count(p.shape.capacity), kThreads, 0, queue.stream()>>>(p, OfferOf(p.shape));
}

void RouteRows(const RouteRowsParams& p) {
  Queue& queue = QueueOf(p.stream);
  RouteKernel<<<Count(p.ranks * p.shape.pairs()), kThreads, 0, queue.stream()>>>(p,
                                                                                 OfferOf(p.shape));
}

void SumRouted(const SumRoutedParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  SumRoutedKernel<<<Count(p.rows), kThreads, 0, queue.stream()>>>(p, OfferOf(p.shape));
}

void* QueueHandle(const Stream& stream) { return QueueOf(stream).plain_stream(); }

// An error counts as done: the queue has it when the step is waited for.
bool QueueIdle(const Stream& stream) {
  if (cudaStreamQuery(QueueOf(stream).plain_stream()) != cudaErrorNotReady) return true;
  cudaGetLastError();  // it is kept like an error, and none
  return false;
}

}  // namespace

const RoutedExchange& CudaRoutedExchange() {
  static const RoutedExchange ops = {OfferRows, RouteRows, SumRouted, QueueHandle, QueueIdle};
  return ops;
}

}  // namespace thalweg::kernels::cuda
