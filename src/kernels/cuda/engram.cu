// Engram lookup and gate (model.md 2.3).
#include <cmath>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostColumns = 1024;

__global__ void GatherKernel(EngramGatherParams p) {
  const int64_t row = blockIdx.x;
  BF16* out = p.out + row * p.columns * p.width;
  ForColumns(p.columns * p.width, [&](int64_t i, bool active) {
    BF16 x = {};
    if (active) {
      const int64_t entry = p.table_rows[row * p.columns + i / p.width];
      const int64_t c = i % p.width;
      x = Narrow(FromE4M3(p.codes[entry * p.width + c]) *
                 FromE8M0(p.scales[entry * (p.width / 32) + c / 32]));
    }
    const Coded coded = QuantiseLane(p.quantise, Wide(x));
    if (active) out[i] = Narrow(coded.value);
  });
}

// A thread a column: the hash of its order, by its modulus.
__global__ void HashKernel(EngramHashParams p) {
  const int64_t row = blockIdx.x, table = blockIdx.y, columns = (p.orders - 1) * p.heads;
  const int64_t column = threadIdx.x;
  if (column >= columns) return;
  const int32_t* look_back = p.look_back + row * p.orders;
  uint64_t hash = 0;
  bool blocked = false;
  for (int64_t s = 0; s <= 1 + column / p.heads; ++s) {
    const int32_t id = look_back[s] < -1 ? p.token_map[p.newest[-2 - look_back[s]]] : look_back[s];
    blocked = blocked || id < 0;
    hash ^= static_cast<uint64_t>(blocked ? p.pad : id) * p.multipliers[table * p.orders + s];
  }
  p.out[table * p.table_stride + row * columns + column] =
      static_cast<int64_t>(hash % p.primes[table * columns + column]) +
      p.offsets[table * columns + column];
}

// sigmoid of the signed square root of the normalised product of stream and key.
__device__ float GateOf(const EngramGateParams& p, int64_t stream, const BF16* x, const BF16* key,
                        float inverse_root) {
  double product = 0;
  for (int64_t c = threadIdx.x; c < p.hidden; c += blockDim.x) {
    const float w = p.q_weight[stream * p.hidden + c] * p.k_weight[stream * p.hidden + c];
    product += static_cast<double>(Wide(x[c]) * w) * static_cast<double>(Wide(key[c]));
  }
  const auto whole = static_cast<float>(BlockSum(product));
  const float x_inverse = InverseRms(x, p.hidden, p.norm_eps);
  const float k_inverse = InverseRms(key, p.hidden, p.norm_eps);
  const float dot = whole * x_inverse * k_inverse * inverse_root;
  return SigmoidOf(copysignf(sqrtf(fmaxf(fabsf(dot), 1e-6f)), dot));
}

__global__ void GateKernel(EngramGateParams p, float inverse_root) {
  const int64_t row = blockIdx.x, stream = blockIdx.y, n = p.streams_n;
  if (p.dead != nullptr && p.dead[row] != 0) return;
  const BF16* keys = p.kv + row * (n + 1) * p.hidden;
  const BF16* value = keys + n * p.hidden;
  BF16* x = p.streams + (row * n + stream) * p.hidden;
  const float gate = GateOf(p, stream, x, keys + stream * p.hidden, inverse_root);
  for (int64_t c = threadIdx.x; c < p.hidden; c += blockDim.x) {
    x[c] = Narrow(Wide(x[c]) + gate * Wide(value[c]));
  }
}

}  // namespace

void EngramGather(const EngramGatherParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  EngramGatherParams d = p;
  if (!p.made) d.table_rows = queue.Stage(p.table_rows, p.rows * p.columns);
  GatherKernel<<<Count(p.rows), kThreads, 0, queue.stream()>>>(d);
}

void EngramHash(const EngramHashParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  const int64_t columns = (p.orders - 1) * p.heads;
  if (columns > kMostColumns) return queue.Note(cudaErrorNotSupported);
  EngramHashParams d = p;
  d.look_back = queue.Stage(p.look_back, p.rows * p.orders);
  const auto threads = Count(base::RoundUp<int64_t>(columns, kWarp));
  HashKernel<<<dim3(Count(p.rows), Count(p.tables)), threads, 0, queue.stream()>>>(d);
}

void EngramGate(const EngramGateParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  EngramGateParams d = p;
  d.dead = queue.Stage(p.dead, p.rows);
  const auto inverse_root = static_cast<float>(1.0 / std::sqrt(static_cast<double>(p.hidden)));
  GateKernel<<<dim3(Count(p.rows), Count(p.streams_n)), kThreads, 0, queue.stream()>>>(
      d, inverse_root);
}

}  // namespace thalweg::kernels::cuda
